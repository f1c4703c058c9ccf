"""Read a corpus file block by block, plain or gzip.

Anything unreadable (missing, a folder, a pipe, without permission, damaged gzip, a gzip bomb) is refused.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sightline.errors import InputError

BLOCK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"

MAX_COMPRESSION_RATIO = 200
"""How many times its size a gzip file may expand to: text reaches 3 to 20, a bomb 1,000."""

MIN_EXPANSION_LIMIT = 64 << 20
"""Bytes that any gzip file may expand to, so that a small repetitive file is no bomb."""


class Location(NamedTuple):
    """A line of a file, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{display_path(self.path)}:{self.line}"


def display_path(path: Path) -> str:
    """Return a printable path, whatever bytes its name holds."""
    return os.fsencode(path).decode("utf-8", errors="replace")


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the contents of a file, decompressed if it is gzip."""
    require_file(path)
    try:
        with path.open("rb") as file:
            magic = file.read(len(GZIP_MAGIC))
            file.seek(0)
            if magic == GZIP_MAGIC:
                yield from decompress(file, path)
                return
            if magic and path.suffix.lower() == ".gz":
                raise InputError(
                    f"{display_path(path)}: this is not gzip, despite its name: compress it again or rename it"
                )
            while block := file.read(BLOCK):
                yield block
    except OSError as error:
        raise InputError(f"{display_path(path)}: cannot read this file: {error.strerror or error}") from None


def decompress(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the contents of a gzip file, refusing implausible compression ratios."""
    limit = max(MIN_EXPANSION_LIMIT, MAX_COMPRESSION_RATIO * os.fstat(file.fileno()).st_size)
    total = 0
    try:
        with gzip.GzipFile(fileobj=file) as contents:
            while block := contents.read(BLOCK):
                total += len(block)
                if total > limit:
                    raise InputError(
                        f"{display_path(path)}: this gzip file expands to more than {MAX_COMPRESSION_RATIO} times its "
                        "size: if that is intended, decompress it and give the plain file"
                    )
                yield block
    except EOFError:
        raise InputError(f"{display_path(path)}: this gzip file is truncated: copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{display_path(path)}: this gzip file is damaged ({error}): copy or download it again"
        ) from None


def require_file(path: Path) -> None:
    """Refuse anything but a regular file, before opening it could block forever."""
    name = display_path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot read this file: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{name}: this is a folder: give a file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{name}: this is a pipe or device: a corpus is read more than once, so save it to a file")
