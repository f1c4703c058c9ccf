"""A trace as JSON and on disk: the field annotations of its dataclasses are the only definition of the format.

`serialize` and `deserialize` turn objects into plain values and back, in which floating-point arrays stay arrays:
`to_json` writes them into the text, a folder holds them in a file of their own. Input is not trusted: reading uses the
bundle's readers, and executes nothing.
"""

import base64
import dataclasses
import json
import math
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import AbstractArray, Shaped
from safetensors import SafetensorError
from safetensors.numpy import save_file

from sightline.bundle.manifest import FORMAT, check_format, shorten
from sightline.bundle.tensor_header import FORMAT_KEY, read_header
from sightline.bundle.weights import read_tensor
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.storage import MAX_MARKS, current_folder, open_regular, parse_object, read_limited, replace_folder

Object = TypeVar("Object")


def serialize(value: object) -> Any:
    """Return dataclasses as dicts, tuples as lists, integer arrays as shape and data; float arrays stay as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: serialize(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        return {"shape": list(value.shape), "data": value.ravel().tolist()}
    if isinstance(value, Mapping):
        return {key: serialize(item) for key, item in value.items()}
    return [serialize(item) for item in value] if isinstance(value, list | tuple) else value


def to_json(plain: object, *, digits: int | None, packed: bool) -> str:
    """Return serialized values as compact JSON, arrays included."""

    def array(value: object) -> object:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(value).__name__} cannot be written as JSON")
        return encode_base64(value) if packed else encode_numbers(value, digits)

    return json.dumps(
        round_numbers(plain, digits), default=array, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def round_numbers(plain: Any, digits: int | None) -> Any:
    """Round all floats outside arrays to this number of significant digits."""
    if isinstance(plain, dict):
        return {key: round_numbers(item, digits) for key, item in plain.items()}
    if isinstance(plain, list):
        return [round_numbers(item, digits) for item in plain]
    return float(f"{plain:.{digits}g}") if isinstance(plain, float) and digits is not None else plain


def encode_numbers(array: Shaped[np.ndarray, "..."], digits: int | None) -> dict[str, object]:
    """Return an array as its shape and rounded numbers; −∞, which JSON lacks, is null."""
    rounding = repr if digits is None else f"{{:.{digits}g}}".format
    numbers = [float(rounding(number)) if math.isfinite(number) else None for number in array.ravel().tolist()]
    short = [int(number) if number is not None and number == int(number) else number for number in numbers]
    return {"shape": list(array.shape), "data": short}


MAX_FLOAT16 = 65_504.0


def encode_base64(array: Shaped[np.ndarray, "..."]) -> dict[str, object]:
    """Return an array as shape, dtype and base64: 16-bit floats, or 32-bit ones if a value is too large."""
    finite = array[np.isfinite(array)]
    dtype = "float16" if np.abs(finite).max(initial=0.0) <= MAX_FLOAT16 else "float32"
    data = array.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"shape": list(array.shape), "dtype": dtype, "data": base64.b64encode(data).decode("ascii")}


MAX_INTEGER = 1 << 53
"""Integers from here on lose digits in JSON, where browsers read every number as a 64-bit float."""


def deserialize(kind: type[Object], value: object, *, where: str = "trace") -> Object:
    """Return the object that `serialize` was given; raise `InputError` if the value does not fit its annotations."""
    return cast("Object", parse_value(kind, value, where))


def parse_value(kind: Any, value: object, where: str) -> Any:
    """Parse a value of the annotated type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return parse_fields(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, AbstractArray):
        return parse_array(kind, value, where)
    if origin in (Union, types.UnionType):
        return parse_union(arguments, value, where)
    parser = CONTAINER_PARSERS.get(origin)
    if parser is not None:
        return parser(arguments, value, where)
    return parse_scalar(kind, value, where)


def parse_fields(kind: Any, value: object, where: str) -> Any:
    """Parse a dataclass from a mapping with exactly its fields."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        given = sorted(set(value) ^ set(names))[:3] if isinstance(value, dict) else []
        raise InputError(
            f"{where} must have exactly {len(names)} entries" + f"; check {', '.join(given)[:80]}" * bool(given)
        )
    return kind(**{name: parse_value(hints[name], value[name], f"{where}.{name}") for name in names})


def parse_array(kind: Any, value: object, where: str) -> Any:
    """Parse an array with the annotated number of axes: integers from shape and data, floats as they are."""
    if isinstance(value, dict) and np.dtype(np.int64).name in kind.dtypes:
        value = parse_integers(value, where)
    if not isinstance(value, np.ndarray) or not isinstance(value, kind):
        raise InputError(f"{where} is not an array of the right type and number of axes")
    return value


def parse_integers(value: Mapping[str, object], where: str) -> Shaped[np.ndarray, "..."]:
    """Parse an integer array from its shape and data."""
    shape, data = value.get("shape"), value.get("data")
    plain = all(
        isinstance(one, list) and all(type(item) is int and abs(item) < MAX_INTEGER for item in one)
        for one in (shape, data)
    )
    if set(value) != {"shape", "data"} or not plain:
        raise InputError(f"{where} must be a shape and integers")
    sizes, numbers = cast("list[int]", shape), cast("list[int]", data)
    if len(sizes) > 8 or min(sizes, default=0) < 0 or math.prod(sizes) != len(numbers):
        raise InputError(f"{where} has {len(numbers):,} numbers, which does not match its shape")
    return np.array(numbers, dtype=np.int64).reshape(sizes)


def parse_union(kinds: tuple[Any, ...], value: object, where: str) -> Any:
    """Parse a value of the first of several types that accepts it."""
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return parse_value(kind, value, where)
        except InputError:
            continue
    return parse_value(others[-1], value, where)


def parse_tuple(kinds: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    """Parse a list whose items have one type."""
    if not isinstance(value, list):
        raise InputError(f"{where} must be a list")
    return tuple(parse_value(kinds[0], item, f"{where}[{index}]") for index, item in enumerate(value))


def parse_dict(kinds: tuple[Any, ...], value: object, where: str) -> dict[str, Any]:
    """Parse an object whose values have one type."""
    if not isinstance(value, dict):
        raise InputError(f"{where} must be an object")
    for key in value:
        check_unicode(key, f"a name in {where}")
    return {key: parse_value(kinds[1], item, f"{where}.{key[:60]}") for key, item in value.items()}


def parse_literal(allowed: tuple[Any, ...], value: object, where: str) -> Any:
    """Parse one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{where} must be one of {', '.join(allowed)}")
    return value


CONTAINER_PARSERS: dict[Any, Callable[[tuple[Any, ...], object, str], Any]] = {
    tuple: parse_tuple,
    dict: parse_dict,
    Literal: parse_literal,
}


def parse_scalar(kind: Any, value: object, where: str) -> Any:
    """Parse a number, a string or a boolean."""
    if kind is float and type(value) is int and abs(value) < MAX_INTEGER:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(cast("float", value))):
        names = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
        raise InputError(f"{where} must be {names[kind]}")
    if isinstance(value, str):
        check_unicode(value, where)
    return value


def check_unicode(text: str, where: str) -> None:
    """Refuse a lone surrogate, which JSON can express and UTF-8 cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where} is not Unicode: it holds a lone surrogate") from None


ENTRIES, ARRAYS = "trace.json", "trace.safetensors"
MAX_JSON_BYTES = 100_000_000
"""Size limit of trace.json; that of a thousand tokens has a few million bytes."""


def write_folder(folder: Path, plain: dict[str, Any], *, half: bool) -> None:
    """Write the folder of a trace, replacing an older trace or an empty folder.

    Writing is atomic: at every moment either the old trace or the new one is there.
    """
    folder = trace_folder(folder).resolve()
    check_target(folder)
    arrays: dict[str, Any] = {}
    entries = extract_arrays(plain, "", arrays)
    text = json.dumps({"format": FORMAT, **entries}, ensure_ascii=False, allow_nan=False)
    check_readable(text.encode("utf-8"))
    dtype = np.float16 if half else np.float32
    try:
        with replace_folder(folder) as new:
            (new / ENTRIES).write_text(text + "\n", encoding="utf-8", newline="\n")
            plain_arrays = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
            save_file(plain_arrays, new / ARRAYS, metadata={FORMAT_KEY: str(FORMAT)})
            (new / ARRAYS).chmod((new / ENTRIES).stat().st_mode)  # safetensors writes files only their owner can read
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(f"could not save the trace as {folder}: {reason}") from error


def trace_folder(path: Path) -> Path:
    """Return the folder of a trace, given the folder or a file in it."""
    return path.parent if path.name in (ENTRIES, ARRAYS) else path


def check_target(folder: Path) -> None:
    """Refuse to replace anything but a trace or an empty folder: its contents would be lost."""
    if not folder.name or (folder.exists() and not folder.is_dir()):
        raise ModelFileError(folder, "cannot be replaced by a trace folder: choose another name")
    others = (
        sorted(path.name for path in folder.iterdir() if path.name not in (ENTRIES, ARRAYS)) if folder.exists() else []
    )
    if others:
        raise ModelFileError(
            folder, f"contains files that are not part of a trace ({others[0]}): choose another folder"
        )


def extract_arrays(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Move the arrays into a dictionary, leaving their names in place."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {key: extract_arrays(item, f"{name}/{key}" if name else key, arrays) for key, item in value.items()}
    return value


def check_readable(data: bytes) -> None:
    """Refuse to write a file that reading would refuse."""
    if len(data) > MAX_JSON_BYTES or any(data.count(mark) > most for mark, most in MAX_MARKS.items()):
        raise InputError(f"the trace is not saved: {ENTRIES} would be too large to be read; ask for fewer candidates")


def read_folder(folder: Path, build: Callable[[object], Object], problems: Callable[[Object], Iterator[str]]) -> Object:
    """Read a folder, build an object from it, and raise on the first problem found in it."""
    folder = current_folder(trace_folder(folder))
    entries = read_entries(folder / ENTRIES)
    arrays = read_arrays(folder / ARRAYS)
    try:
        result = build(restore_arrays(entries, arrays))
        if arrays:
            raise InputError(f"{ARRAYS} has an array {next(iter(arrays))[:80]!r} that nothing refers to")
        for problem in problems(result):
            raise InputError(problem)
    except InputError as error:
        raise ModelFileError(folder / ENTRIES, shorten(str(error))) from None
    return result


def read_entries(path: Path) -> dict[str, Any]:
    """Read trace.json."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing: this is not a trace folder")
    with file:
        data = read_limited(file, path, max_bytes=MAX_JSON_BYTES)
    try:
        entries = parse_object(data)
    except InputError as error:
        raise ModelFileError(path, shorten(str(error))) from None
    if "format" not in entries:
        raise ModelFileError(path, 'has no "format": it is not a Sightline trace')
    version = entries.pop("format")
    check_format(version, path)
    if version != FORMAT:
        raise ModelFileError(path, f"has the format {version} of an older Sightline: trace the text again")
    return entries


def read_arrays(path: Path) -> dict[str, Any]:
    """Read trace.safetensors, refusing NaN and +∞; −∞ marks masked scores."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing: this is not a trace folder")
    with file:
        try:
            header = read_header(file, path)
            file.seek(header.start)
            arrays = {name: read_tensor(file, stored, path).float().numpy() for name, stored in header.tensors.items()}
        except OSError as error:
            raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    for name, array in arrays.items():
        if np.isnan(array).any() or np.isposinf(array).any():
            raise ModelFileError(path, f"{name[:80]!r} contains NaN or infinity")
    return arrays


def restore_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    """Put the arrays back in their places, each once."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        name = value["array"]
        if not isinstance(name, str) or name not in arrays:
            raise InputError(f"{ARRAYS} has no array {str(name)[:80]!r}")
        return arrays.pop(name)
    return {key: restore_arrays(item, arrays) for key, item in value.items()}
