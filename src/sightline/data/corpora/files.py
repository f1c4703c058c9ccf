"""Read the lines of a file, plain or gzip, block by block; every anomaly that is not refused is counted.

Anything unreadable (missing, a folder, a pipe, without permission, damaged gzip, a gzip bomb) is refused. However long
a line is, no more than `MAX_LINE_BYTES` of it are in memory.
"""

import glob
import gzip
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from sightline.errors import InputError

FAULTS = {
    "empty": "a side is blank, or has no letter and no digit",
    "too_long": "a side has too many characters",
    "length_ratio": "one side is much longer than the other",
    "identical": "both sides are the same text",
    "swapped": "source and target are in each other's place",
    "wrong_language": "one side is in the language of the other",
    "wrong_script": "a side is in a script that its side does not use",
    "numbers": "the numbers of the two sides differ",
    "encoding": "characters of a broken encoding",
    "markup": "remains of HTML: tags or entities",
    "controls": "control characters",
    "duplicate": "an exact repetition",
    "near_duplicate": "a repetition but for case, spacing and punctuation",
}
"""What cleaning drops a record for, by the name of its rule (`cleaning.py`)."""

OUTCOMES = {
    "kept": "kept",
    "blank": "blank, dropped",
    "half_blank": "with one blank side, dropped",
    "single_turns": "dialogues of a single turn, dropped",
    "byte_order_marks": "byte order marks at the start of a file, removed",
    "controls": "lines with control characters, kept",
    "utf8_replaced": "lines that were not UTF-8, bad bytes replaced by U+FFFD",
    "utf8_skipped": "lines that were not UTF-8, skipped",
    "long_lines_skipped": "lines of more than a megabyte, skipped",
    "long_lines_cut": "lines of more than a megabyte, split",
    "duplicates": "duplicates, kept",
    "duplicates_dropped": "duplicates, dropped",
    "copies": "with identical source and target, kept",
    "copies_dropped": "with identical source and target, dropped",
    "long_skipped": "longer than max_length, dropped",
    "long_cut": "longer than max_length, truncated",
    "cleaned": "dropped by data.clean, for one or more of these reasons:",
    **{f"clean_{name}": f"{name}: {fault}" for name, fault in FAULTS.items()},
}
"""The documented outcomes, as reported; anything refused is an error with its line, never a count."""


class Counts:
    """How often each outcome occurred."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter()
        for name, count in (counts or {}).items():
            self.add(name, count)

    def add(self, name: str, count: int = 1) -> None:
        """Count an outcome; it must be a documented one."""
        if name not in OUTCOMES:
            raise KeyError(name)
        self._counts[name] += count

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def to_mapping(self) -> dict[str, int]:
        """Return the counts above zero, in the order of `OUTCOMES`."""
        return {name: self._counts[name] for name in OUTCOMES if self._counts[name]}

    def report(self) -> list[str]:
        """Return a line for each outcome that occurred."""
        return [f"{count:,} {OUTCOMES[name]}" for name, count in self.to_mapping().items()]


class Location(NamedTuple):
    """A line of a file, for messages."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{display_path(self.path)}:{self.line}"


def display_path(path: Path) -> str:
    """Return a printable path, whatever bytes its name holds."""
    return os.fsencode(path).decode("utf-8", errors="replace")


MAX_LINE_BYTES = 1 << 20

OnBadUTF8 = Literal["refuse", "replace", "skip"]


class Line(NamedTuple):
    """A line of text."""

    number: int
    text: str | None
    """None if the line is to be skipped, so that its counterpart in a parallel file can be skipped too."""
    too_long: bool = False


def read_lines(path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts, max_blocks: int | None = None) -> Iterator[Line]:
    """Yield the lines of a file; a line longer than `MAX_LINE_BYTES` has no text.

    With `max_blocks` only the beginning is read: the last line may be incomplete.
    """
    whole = True
    blocks = islice(read_blocks(path), max_blocks)
    for part in split_lines(strip_bom(blocks, path, counts), max_bytes=MAX_LINE_BYTES):
        if not part.ends:
            whole = False
        elif not whole:
            counts.add("long_lines_skipped")
            yield Line(part.number, None, too_long=True)
            whole = True
        else:
            location = Location(path, part.number)
            yield Line(part.number, decode_line(part.data, location, on_bad_utf8=on_bad_utf8, counts=counts))


def read_line_parts(path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Line]:
    """Yield the lines of running text; a line longer than `MAX_LINE_BYTES` is split."""
    whole = True
    for part in split_lines(strip_bom(read_blocks(path), path, counts), max_bytes=MAX_LINE_BYTES):
        counts.add("long_lines_cut", int(whole and not part.ends))
        whole = part.ends
        text = decode_line(part.data, Location(path, part.number), on_bad_utf8=on_bad_utf8, counts=counts)
        yield Line(part.number, text, too_long=not part.ends)


LINE_BREAKS = re.compile(rb"\r\n|\n|\r")
"""Other Unicode line breaks stay in their line: splitting there would misalign the two sides of a parallel corpus."""


class LinePart(NamedTuple):
    """A line, or part of a line that is too long."""

    number: int
    data: bytes
    ends: bool
    """Whether this is the last part of its line."""


def split_lines(data: Iterable[bytes], *, max_bytes: int) -> Iterator[LinePart]:
    """Split blocks of bytes into lines, and lines longer than `max_bytes` into parts."""
    number, rest, after_return = 1, b"", False
    for block in data:
        joined = rest + (block[1:] if after_return and block.startswith(b"\n") else block)
        after_return = block.endswith(b"\r")  # a \n that follows belongs to it
        *lines, rest = LINE_BREAKS.split(joined) if b"\r" in joined else joined.split(b"\n")
        for line in lines:
            *parts, last = split_long_line(line, max_bytes)
            for part in parts:
                yield LinePart(number, part, ends=False)
            yield LinePart(number, last, ends=True)
            number += 1
        *parts, rest = split_long_line(rest, max_bytes)
        for part in parts:
            yield LinePart(number, part, ends=False)
    if rest:
        yield LinePart(number, rest, ends=True)


def split_long_line(line: bytes, max_bytes: int) -> list[bytes]:
    """Split a line into parts of `max_bytes` or just under, never inside a character."""
    parts = []
    start = 0
    while len(line) - start > max_bytes:
        stop = start + max_bytes
        while stop > start + max_bytes - 4 and line[stop] & 0xC0 == 0x80:
            stop -= 1
        parts.append(line[start:stop])
        start = stop
    return [*parts, line[start:] if start else line]


UTF8_BOM = b"\xef\xbb\xbf"
OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def strip_bom(data: Iterator[bytes], path: Path, counts: Counts) -> Iterator[bytes]:
    """Strip the UTF-8 byte order mark, refusing those of other encodings."""
    first = next(data, b"")
    if first.startswith(OTHER_BOMS):
        raise InputError(f"{display_path(path)}: this is UTF-16 or UTF-32: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if first.startswith(UTF8_BOM):
        counts.add("byte_order_marks")
        first = first[len(UTF8_BOM) :]
    if first:
        yield first
    yield from data


CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def decode_line(data: bytes, location: Location, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> str | None:
    """Return the text of a line, or None if it is to be skipped."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if on_bad_utf8 == "refuse":
            raise InputError(
                f"{location}:{error.start + 1}: byte {error.start + 1} of this line is not UTF-8: fix it",
                setting="data.on_bad_utf8",
                advice="set {} to replace or skip",
            ) from None
        if on_bad_utf8 == "skip":
            counts.add("utf8_skipped")
            return None
        counts.add("utf8_replaced")
        text = data.decode("utf-8", errors="replace")
    if CONTROLS.search(text):
        counts.add("controls")
    return text


BLOCK_BYTES = 1 << 20
"""Bytes read at once."""

GZIP_MAGIC = b"\x1f\x8b"


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
            while block := file.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise InputError(f"{display_path(path)}: cannot read this file: {error.strerror or error}") from None


MAX_COMPRESSION_RATIO = 200
"""How many times its size a gzip file may expand to: text reaches 3 to 20, a bomb 1,000."""

MIN_EXPANSION_LIMIT = 64 << 20
"""Bytes that any gzip file may expand to, so that a small repetitive file is no bomb."""


def decompress(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the contents of a gzip file, refusing implausible compression ratios."""
    limit = max(MIN_EXPANSION_LIMIT, MAX_COMPRESSION_RATIO * os.fstat(file.fileno()).st_size)
    total = 0
    try:
        with gzip.GzipFile(fileobj=file) as contents:
            while block := contents.read(BLOCK_BYTES):
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


def find_files(names: Iterable[str], folder: str | None = None) -> tuple[Path, ...]:
    """Return the files that names stand for: files, all files of a folder, or those that match a pattern.

    Files of one name are sorted. Hidden files, and folders within a folder, are left out; links are followed.
    """
    found: list[Path] = []
    for name in names:
        path = Path(folder or "", name)
        if is_folder(path):
            inside = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(".") and entry.is_file()]
            if not inside:
                raise InputError(
                    f"{display_path(path)}: no file in this folder: give files, or a pattern such as {path}/**/*.txt"
                )
            found += inside
        elif is_pattern(name) and not path.exists():
            pattern = Path(glob.escape(folder or ""), name)  # only the name is a pattern
            matches = sorted(glob.glob(str(pattern), recursive=True))  # noqa: PTH207 - Path.glob finds hidden files too
            matching = [match for match in map(Path, matches) if match.is_file()]
            if not matching:
                raise InputError(f"{display_path(path)}: no file matches this pattern")
            found += matching
        else:
            found.append(path)
    return tuple(found)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; one that cannot be looked at is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern for several files."""
    return any(mark in name for mark in "*?[")


def require_file(path: Path) -> None:
    """Refuse anything but a regular file, before opening it could block forever."""
    name = display_path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        several = ': several files are a list: \'["a.tsv", "b.tsv"]\'' if "," in name else ""
        raise InputError(f"{name}: no such file{several}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot read this file: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{name}: this is a folder: give a file in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{name}: this is a pipe or device: a corpus is read more than once, so save it to a file")


def file_state(path: Path) -> tuple[int, int]:
    """Return size and modification time, which change when a file does."""
    require_file(path)
    found = path.stat()
    return found.st_size, found.st_mtime_ns
