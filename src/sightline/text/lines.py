r"""Read the lines of a file as text, with their numbers: only \n, \r\n and \r end a line.

Other Unicode line breaks stay in their line: splitting there would misalign the two sides of a parallel corpus. However
long a line is, no more than `MAX_LINE_BYTES` of it are in memory.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from sightline.errors import InputError
from sightline.text.counts import Counts
from sightline.text.files import Location, display_path, read_blocks

MAX_LINE_BYTES = 1 << 20

LINE_BREAKS = re.compile(rb"\r\n|\n|\r")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
UTF8_BOM = b"\xef\xbb\xbf"
OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

OnBadUTF8 = Literal["refuse", "replace", "skip"]


class LinePart(NamedTuple):
    """A line, or part of a line that is too long."""

    number: int
    data: bytes
    ends: bool
    """Whether this is the last part of its line."""


class Line(NamedTuple):
    """A line of text."""

    number: int
    text: str | None
    """None if the line is to be skipped, so that its counterpart in a parallel file can be skipped too."""
    too_long: bool = False


def read_lines(path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Line]:
    """Yield the lines of a file; a line longer than `MAX_LINE_BYTES` has no text."""
    whole = True
    for part in split_lines(strip_bom(read_blocks(path), path, counts), max_bytes=MAX_LINE_BYTES):
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


def decode_line(data: bytes, location: Location, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> str | None:
    """Return the text of a line, or None if it is to be skipped."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if on_bad_utf8 == "refuse":
            raise InputError(
                f"{location}:{error.start + 1}: byte {error.start + 1} of this line is not UTF-8: fix it, or set "
                "data.on_bad_utf8 to replace or skip"
            ) from None
        if on_bad_utf8 == "skip":
            counts.add("utf8_skipped")
            return None
        counts.add("utf8_replaced")
        text = data.decode("utf-8", errors="replace")
    if CONTROLS.search(text):
        counts.add("controls")
    return text
