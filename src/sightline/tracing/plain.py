"""Dataclasses as what JSON knows, and back: the annotations of the fields are the only definition of the format.

Floating-point arrays stay arrays, so that whoever writes decides where they go. Nothing that is read is trusted.
"""

import base64
import dataclasses
import json
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import AbstractArray, Shaped

from sightline.errors import InputError

Kind = TypeVar("Kind")

LARGEST_HALF = 65_504.0


def to_plain(value: object) -> Any:
    """Return dataclasses as mappings, tuples as lists, whole-number arrays as shape and data; float arrays stay."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        return {"shape": list(value.shape), "data": value.ravel().tolist()}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_plain(kind: type[Kind], value: object, *, where: str = "trace") -> Kind:
    """Return what `to_plain` was given, refusing in one sentence what cannot have been that."""
    return cast("Kind", _read(kind, value, where))


def as_json(plain: object, *, digits: int | None, packed: bool) -> str:
    """Return JSON without blanks, with the arrays in their places."""

    def array(value: object) -> object:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(value).__name__} is nothing JSON knows")
        return packed_array(value) if packed else number_array(value, digits)

    return json.dumps(rounded(plain, digits), default=array, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def rounded(plain: Any, digits: int | None) -> Any:
    """Return the same with its numbers rounded to so many significant digits, but for those in arrays."""
    if isinstance(plain, dict):
        return {key: rounded(item, digits) for key, item in plain.items()}
    if isinstance(plain, list):
        return [rounded(item, digits) for item in plain]
    return float(f"{plain:.{digits}g}") if isinstance(plain, float) and digits is not None else plain


def number_array(array: Shaped[np.ndarray, "..."], digits: int | None) -> dict[str, object]:
    """Return an array as shape and numbers, rounded; −∞, which JSON does not know, is null."""
    rounding = repr if digits is None else f"{{:.{digits}g}}".format
    numbers = [float(rounding(number)) if math.isfinite(number) else None for number in array.ravel().tolist()]
    short = [int(number) if number is not None and number == int(number) else number for number in numbers]
    return {"shape": list(array.shape), "data": short}


def packed_array(array: Shaped[np.ndarray, "..."]) -> dict[str, object]:
    """Return an array as shape, type and base64: 16-bit floats, or 32-bit ones where those cannot hold a value."""
    finite = array[np.isfinite(array)]
    dtype = "float16" if np.abs(finite).max(initial=0.0) <= LARGEST_HALF else "float32"
    data = array.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"shape": list(array.shape), "dtype": dtype, "data": base64.b64encode(data).decode("ascii")}


def _read(kind: Any, value: object, where: str) -> Any:
    """Read a value of an annotated kind."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, AbstractArray):
        return _read_array(kind, value, where)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, where)
    reader = _CONTAINERS.get(origin)
    if reader is not None:
        return reader(arguments, value, where)
    return _read_scalar(kind, value, where)


def _read_fields(kind: Any, value: object, where: str) -> Any:
    """Read a dataclass from a mapping that has all of its fields and no others."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        given = sorted(set(value) ^ set(names))[:3] if isinstance(value, dict) else []
        raise InputError(
            f"{where} must have exactly {len(names)} entries" + f"; look at {', '.join(given)[:80]}" * bool(given)
        )
    return kind(**{name: _read(hints[name], value[name], f"{where}.{name}") for name in names})


def _read_array(kind: Any, value: object, where: str) -> Any:
    """Read an array of the annotated number of axes: whole numbers from shape and data, others as they are."""
    if isinstance(value, dict) and np.dtype(np.int64).name in kind.dtypes:
        value = _whole_numbers(value, where)
    if not isinstance(value, np.ndarray) or not isinstance(value, kind):
        raise InputError(f"{where} is not an array of the right kind and number of axes")
    return value


def _whole_numbers(value: Mapping[str, object], where: str) -> Shaped[np.ndarray, "..."]:
    """Read whole numbers from their shape and data."""
    shape, data = value.get("shape"), value.get("data")
    plain = all(
        isinstance(one, list) and all(type(item) is int and abs(item) < 1 << 53 for item in one)
        for one in (shape, data)
    )
    if set(value) != {"shape", "data"} or not plain:
        raise InputError(f"{where} must be a shape and whole numbers")
    sizes, numbers = cast("list[int]", shape), cast("list[int]", data)
    if len(sizes) > 8 or min(sizes, default=0) < 0 or math.prod(sizes) != len(numbers):
        raise InputError(f"{where} has {len(numbers):,} numbers, which is not what its shape says")
    return np.array(numbers, dtype=np.int64).reshape(sizes)


def _read_union(kinds: tuple[Any, ...], value: object, where: str) -> Any:
    """Read a value of one of several kinds: the first that takes it."""
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _read(kind, value, where)
        except InputError:
            continue
    return _read(others[-1], value, where)


def _read_tuple(kinds: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    """Read a list, all items of one kind."""
    if not isinstance(value, list):
        raise InputError(f"{where} must be a list")
    return tuple(_read(kinds[0], item, f"{where}[{place}]") for place, item in enumerate(value))


def _read_dict(kinds: tuple[Any, ...], value: object, where: str) -> dict[str, Any]:
    """Read an object, all entries of one kind."""
    if not isinstance(value, dict):
        raise InputError(f"{where} must be an object")
    for key in value:
        check_unicode(key, f"a name in {where}")
    return {key: _read(kinds[1], item, f"{where}.{key[:60]}") for key, item in value.items()}


def _read_literal(allowed: tuple[Any, ...], value: object, where: str) -> Any:
    """Read one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{where} must be one of {', '.join(allowed)}")
    return value


_CONTAINERS: dict[Any, Callable[[tuple[Any, ...], object, str], Any]] = {
    tuple: _read_tuple,
    dict: _read_dict,
    Literal: _read_literal,
}


def _read_scalar(kind: Any, value: object, where: str) -> Any:
    """Read a number, a text, or yes or no."""
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(cast("float", value))):
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise InputError(f"{where} must be {names[kind]}")
    if isinstance(value, str):
        check_unicode(value, where)
    return value


def check_unicode(text: str, where: str) -> None:
    """Refuse half a surrogate pair, which JSON can spell and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where} is not Unicode: it holds half a character") from None
