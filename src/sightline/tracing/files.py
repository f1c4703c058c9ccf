"""A trace on disk: trace.json with everything that is text, trace.safetensors with the arrays.

Read by the bundle's readers, which run nothing and believe nothing; written so that at every instant the old trace or
the new one is there.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from sightline.bundle.atomic import place_of, replace_folder
from sightline.bundle.header import FORMAT_KEY, read_header
from sightline.bundle.manifest import check_format, shortened
from sightline.bundle.source import open_regular, read_all
from sightline.bundle.weights import read_tensor
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.text.strict_json import MOST, parse_object

ENTRIES, ARRAYS = "trace.json", "trace.safetensors"
FORMAT = 1
LARGEST = 100_000_000
"""Bytes of trace.json that are read; that of a thousand tokens has some millions."""

Read = TypeVar("Read")


def write_files(folder: Path, plain: dict[str, Any], *, half: bool) -> None:
    """Write a folder in the place of a trace that is there, or of an empty one."""
    folder = folder_of(folder).resolve()
    check_target(folder)
    arrays: dict[str, Any] = {}
    entries = without_arrays(plain, "", arrays)
    text = json.dumps({"format": FORMAT, **entries}, ensure_ascii=False, allow_nan=False)
    check_readable(text.encode("utf-8"))
    dtype = np.float16 if half else np.float32

    def write(place: Path) -> None:
        (place / ENTRIES).write_text(text + "\n", encoding="utf-8", newline="\n")
        plain_arrays = {name: np.ascontiguousarray(array, dtype=dtype) for name, array in arrays.items()}
        save_file(plain_arrays, place / ARRAYS, metadata={FORMAT_KEY: str(FORMAT)})
        (place / ARRAYS).chmod((place / ENTRIES).stat().st_mode)  # the library gives its files to their owner alone

    try:
        replace_folder(folder, write)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(f"could not save the trace as {folder}: {reason}") from error


def read_files(folder: Path, build: Callable[[object], Read], problems: Callable[[Read], Iterator[str]]) -> Read:
    """Read a folder, and have something built of it that must have no problems."""
    folder = place_of(folder_of(folder))
    entries = read_entries(folder / ENTRIES)
    arrays = read_arrays(folder / ARRAYS)
    try:
        result = build(with_arrays(entries, arrays))
        if arrays:
            raise InputError(f"{ARRAYS} holds {next(iter(arrays))[:80]!r}, which belongs to nothing")
        for problem in problems(result):
            raise InputError(problem)
    except InputError as error:
        raise ModelFileError(folder / ENTRIES, shortened(str(error))) from None
    return result


def folder_of(path: Path) -> Path:
    """Return the folder of a trace; whoever names the file in it means that."""
    return path.parent if path.name in (ENTRIES, ARRAYS) else path


def check_target(folder: Path) -> None:
    """Refuse to replace anything but a trace or an empty folder: what is in it would be gone."""
    if not folder.name or (folder.exists() and not folder.is_dir()):
        raise ModelFileError(folder, "cannot be replaced by the folder of a trace: choose another name")
    others = (
        sorted(path.name for path in folder.iterdir() if path.name not in (ENTRIES, ARRAYS)) if folder.exists() else []
    )
    if others:
        raise ModelFileError(folder, f"holds what is not part of a trace ({others[0]}): choose another folder")


def check_readable(data: bytes) -> None:
    """Refuse to write what would be refused when it is read."""
    if len(data) > LARGEST or any(data.count(mark) > most for mark, most in MOST.items()):
        raise InputError(f"the trace is not saved: {ENTRIES} would be too long to be read; ask for fewer candidates")


def read_entries(path: Path) -> dict[str, Any]:
    """Read trace.json."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing: this is not the folder of a trace")
    with file:
        data = read_all(file, path, most=LARGEST)
    try:
        entries = parse_object(data)
    except InputError as error:
        raise ModelFileError(path, shortened(str(error))) from None
    if "format" not in entries:
        raise ModelFileError(path, 'has no "format": it is not a trace of Sightline')
    check_format(entries.pop("format"), path)
    return entries


def read_arrays(path: Path) -> dict[str, Any]:
    """Read trace.safetensors, refusing NaN; −∞ stands where a mask was added."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing: this is not the folder of a trace")
    with file:
        try:
            header = read_header(file, path)
            file.seek(header.start)
            arrays = {name: read_tensor(file, stored, path).float().numpy() for name, stored in header.tensors.items()}
        except OSError as error:
            raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    for name, array in arrays.items():
        if np.isnan(array).any() or np.isposinf(array).any():
            raise ModelFileError(path, f"{name[:80]!r} holds NaN or infinity: no model computes with those")
    return arrays


def without_arrays(value: Any, place: str, arrays: dict[str, Any]) -> Any:
    """Take the arrays out, leaving their names."""
    if isinstance(value, np.ndarray):
        arrays[place] = value
        return {"array": place}
    if isinstance(value, dict):
        return {key: without_arrays(item, f"{place}/{key}" if place else key, arrays) for key, item in value.items()}
    return value


def with_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    """Put the arrays back in their places, each once."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        name = value["array"]
        if not isinstance(name, str) or name not in arrays:
            raise InputError(f"{ARRAYS} has no array {str(name)[:80]!r}")
        return arrays.pop(name)
    return {key: with_arrays(item, arrays) for key, item in value.items()}
