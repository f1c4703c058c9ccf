"""The bytes of a corpus file, a block at a time: plain or gzip, and never more of them than the file is good for.

What cannot be read (missing, a folder, a pipe, without permission, broken gzip, a gzip bomb) is refused in a sentence.
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
GZIP_MARK = b"\x1f\x8b"

MOST_EXPANSION = 200
"""Times its own size that a gzip file may unpack to: text reaches 3 to 20, a bomb 1,000."""

FREE_EXPANSION = 64 << 20
"""Bytes that any gzip file may unpack to, so that a small file of repetitions is no bomb."""


class Place(NamedTuple):
    """Where something stands, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{shown_path(self.path)}:{self.line}"


def shown_path(path: Path) -> str:
    """Return a path that can be printed, whatever bytes its name is made of."""
    return os.fsencode(path).decode("utf-8", errors="replace")


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the contents of a file, unpacked if it is gzip."""
    require_file(path)
    try:
        with path.open("rb") as file:
            mark = file.read(len(GZIP_MARK))
            file.seek(0)
            if mark == GZIP_MARK:
                yield from unpacked(file, path)
                return
            if mark and path.suffix.lower() == ".gz":
                raise InputError(f"{shown_path(path)}: this is not gzip, despite its name: pack it again or rename it")
            while block := file.read(BLOCK):
                yield block
    except OSError as error:
        raise InputError(f"{shown_path(path)}: this file cannot be read: {error.strerror or error}") from None


def unpacked(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the contents of a gzip file, up to what text could possibly unpack to."""
    most = max(FREE_EXPANSION, MOST_EXPANSION * os.fstat(file.fileno()).st_size)
    total = 0
    try:
        with gzip.GzipFile(fileobj=file) as contents:
            while block := contents.read(BLOCK):
                total += len(block)
                if total > most:
                    raise InputError(
                        f"{shown_path(path)}: this gzip file unpacks to more than {MOST_EXPANSION} times its size: "
                        "if that is meant, unpack it and give the plain file"
                    )
                yield block
    except EOFError:
        raise InputError(f"{shown_path(path)}: this gzip file ends too early: copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{shown_path(path)}: this gzip file is damaged ({error}): copy or download it again"
        ) from None


def require_file(path: Path) -> None:
    """Refuse what is not there or is no ordinary file, before an open could wait for ever."""
    shown = shown_path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown}: this file cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{shown}: this is a folder: give a file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown}: this is a pipe or device: a corpus is read more than once, so save it to a file")
