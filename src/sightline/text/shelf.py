"""Numbers on disk as plain little-endian arrays, with an index that says what they are and whether they are whole.

A folder holds one file per array and `index.json`, written last. It is filled under a temporary name, forced to the
disk and renamed, so it is there whole or not at all. Arrays are mapped into memory: only what is used is read.
"""

import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, SightlineError
from sightline.text.strict_json import parse_object

FORMAT = 1
INDEX = "index.json"
BLOCK = 1 << 22
ABANDONED = 3600
"""Seconds after which an unfinished folder that nobody writes to was left by a process that was killed."""


class Writer:
    """Appends numbers to the arrays of a new folder."""

    def __init__(self, folder: Path, kinds: Mapping[str, str]) -> None:
        self._folder, self._kinds = folder, kinds
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in kinds}
        self._checks = dict.fromkeys(kinds, 0)

    def append(self, name: str, numbers: Sequence[int] | NDArray[np.integer]) -> None:
        """Add numbers at the end of an array."""
        data = np.asarray(numbers, dtype=self._kinds[name]).tobytes()
        self._checks[name] = zlib.crc32(data, self._checks[name])
        self._files[name].write(data)

    def finish(self, facts: Mapping[str, object]) -> None:
        """Force the arrays to the disk and write the index over them."""
        arrays = {}
        for name, file in self._files.items():
            flush(file)
            arrays[name] = {"kind": self._kinds[name], "bytes": file.tell(), "crc32": self._checks[name]}
        with (self._folder / INDEX).open("wb") as file:
            file.write(json.dumps({"format": FORMAT, "arrays": arrays, "facts": facts}, indent=1).encode("utf-8"))
            flush(file)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()


@contextmanager
def new_folder(folder: Path, kinds: Mapping[str, str]) -> Iterator[Writer]:
    """Lend a writer for a folder that will be there when all went well, in place of what was there before."""
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        writer = Writer(temporary, kinds)
        try:
            yield writer
        finally:
            writer.close()
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
        flush_folder(folder.parent)
    except OSError as error:
        raise SightlineError(
            f"{folder.parent}: the encoded corpus cannot be written there: {error.strerror or error}"
        ) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def read_folder(folder: Path) -> tuple[dict[str, NDArray[np.integer]], dict[str, object]] | None:
    """Return the arrays and facts of a folder, or None if it is not there, not whole or not of this format."""
    try:
        index = parse_object((folder / INDEX).read_bytes())
        arrays, facts = index["arrays"], index["facts"]
        if index["format"] != FORMAT or not isinstance(arrays, dict) or not isinstance(facts, dict):
            return None
        return {name: mapped(folder / name, **entry) for name, entry in arrays.items()}, facts
    except (OSError, InputError, KeyError, TypeError, ValueError):
        return None


def mapped(path: Path, *, kind: str, bytes: int, crc32: int) -> NDArray[np.integer]:  # noqa: A002
    """Map an array into memory, once it has proved to be what was written."""
    check = size = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            check = zlib.crc32(block, check)
            size += len(block)
    if (size, check) != (bytes, crc32):
        raise ValueError("the array is not what was written")
    return np.memmap(path, dtype=kind, mode="r") if size else np.zeros(0, dtype=kind)


def flush(file: BinaryIO) -> None:
    """Wait until a file's bytes would survive a power cut."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until a folder's entries would survive a power cut, where folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_abandoned(folder: Path) -> None:
    """Remove what killed processes left of this folder."""
    for left in folder.parent.glob(f"{folder.name}.tmp-*"):
        newest = max((path.stat().st_mtime for path in left.iterdir()), default=left.stat().st_mtime)
        if time.time() - newest > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
