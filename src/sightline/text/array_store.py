"""Arrays on disk: plain little-endian files, with an index of their types, sizes and checksums.

A folder holds one file per array and `index.json`, written last. It is replaced atomically, so it is either complete or
absent. Arrays are memory-mapped: only what is used is read.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, SightlineError
from sightline.storage import parse_object, replace_folder

FORMAT = 1
INDEX = "index.json"
BLOCK = 1 << 22


class ArrayWriter:
    """Appends to the arrays of a new folder."""

    def __init__(self, folder: Path, dtypes: Mapping[str, str]) -> None:
        self._folder, self._dtypes = folder, dtypes
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in dtypes}
        self._checksums = dict.fromkeys(dtypes, 0)

    def append(self, name: str, numbers: Sequence[int] | NDArray[np.integer]) -> None:
        """Append numbers to an array."""
        data = np.asarray(numbers, dtype=self._dtypes[name]).tobytes()
        self._checksums[name] = zlib.crc32(data, self._checksums[name])
        self._files[name].write(data)

    def finish(self, facts: Mapping[str, object]) -> None:
        """Write the index."""
        arrays = {
            name: {"kind": self._dtypes[name], "bytes": file.tell(), "crc32": self._checksums[name]}
            for name, file in self._files.items()
        }
        index = json.dumps({"format": FORMAT, "arrays": arrays, "facts": facts}, indent=1)
        (self._folder / INDEX).write_bytes(index.encode("utf-8"))

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


@contextmanager
def create_folder(folder: Path, dtypes: Mapping[str, str]) -> Iterator[ArrayWriter]:
    """Yield a writer for a folder that replaces the existing one once all is written."""
    try:
        with replace_folder(folder, shared=True) as new:  # another process may be encoding the same corpus
            writer = ArrayWriter(new, dtypes)
            try:
                yield writer
            finally:
                writer.close()
    except OSError as error:
        raise SightlineError(
            f"{folder.parent}: the encoded corpus cannot be written there: {error.strerror or error}"
        ) from None


def read_folder(folder: Path) -> tuple[dict[str, NDArray[np.integer]], dict[str, object]] | None:
    """Return the arrays and facts of a folder, or None if it is missing, damaged or of another format."""
    try:
        index = parse_object((folder / INDEX).read_bytes())
        arrays, facts = index["arrays"], index["facts"]
        if index["format"] != FORMAT or not isinstance(arrays, dict) or not isinstance(facts, dict):
            return None
        return {name: map_array(folder / name, **entry) for name, entry in arrays.items()}, facts
    except (OSError, InputError, KeyError, TypeError, ValueError):
        return None


def map_array(path: Path, *, kind: str, bytes: int, crc32: int) -> NDArray[np.integer]:  # noqa: A002
    """Memory-map an array after verifying its size and checksum."""
    checksum = size = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
            size += len(block)
    if (size, checksum) != (bytes, crc32):
        raise ValueError("the size or checksum does not match the index")
    return np.memmap(path, dtype=kind, mode="r") if size else np.zeros(0, dtype=kind)
