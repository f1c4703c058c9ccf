"""A trace on disk: trace.json with all but the arrays, trace.safetensors with the arrays.

Reading uses the bundle's readers, which execute and trust nothing. Writing is atomic: at every moment either the old
trace or the new one is there.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from sightline.bundle.header import FORMAT_KEY, read_header
from sightline.bundle.manifest import FORMAT, check_format, shorten
from sightline.bundle.weights import read_tensor
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.storage import MAX_MARKS, current_folder, open_regular, parse_object, read_limited, replace_folder

ENTRIES, ARRAYS = "trace.json", "trace.safetensors"
MAX_JSON_BYTES = 100_000_000
"""Size limit of trace.json; that of a thousand tokens has a few million bytes."""

Read = TypeVar("Read")


def write_files(folder: Path, plain: dict[str, Any], *, half: bool) -> None:
    """Write the folder of a trace, replacing an older trace or an empty folder."""
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


def read_files(folder: Path, build: Callable[[object], Read], problems: Callable[[Read], Iterator[str]]) -> Read:
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


def check_readable(data: bytes) -> None:
    """Refuse to write a file that reading would refuse."""
    if len(data) > MAX_JSON_BYTES or any(data.count(mark) > most for mark, most in MAX_MARKS.items()):
        raise InputError(f"the trace is not saved: {ENTRIES} would be too large to be read; ask for fewer candidates")


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


def extract_arrays(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Move the arrays into a dictionary, leaving their names in place."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {key: extract_arrays(item, f"{name}/{key}" if name else key, arrays) for key, item in value.items()}
    return value


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
