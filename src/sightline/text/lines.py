r"""The lines of a file as text, with their numbers: only \n, \r\n and \r end a line.

Everything else that Unicode calls a line break stays in its line: cutting there would shift one side of a parallel
corpus against the other. However long a line is, no more than `LONGEST` bytes of it are in memory.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from sightline.errors import InputError
from sightline.text.counts import Counts
from sightline.text.files import Place, blocks, shown_path

LONGEST = 1 << 20
"""Bytes of a line."""

BREAKS = re.compile(rb"\r\n|\n|\r")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
UTF8_MARK = b"\xef\xbb\xbf"
OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

OnBadUTF8 = Literal["refuse", "replace", "skip"]


class Piece(NamedTuple):
    """A line, or a part of one that is too long."""

    number: int
    data: bytes
    ends: bool
    """Whether this is the last piece of its line."""


class Line(NamedTuple):
    """A line of text."""

    number: int
    text: str | None
    """None where the line is to be skipped, so that its partner in another file can be skipped too."""
    too_long: bool = False


def read_lines(path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Line]:
    """Yield the lines of a file; one longer than `LONGEST` comes without text."""
    whole = True
    for piece in cut(without_mark(blocks(path), path, counts), longest=LONGEST):
        if not piece.ends:
            whole = False
        elif not whole:
            counts.add("long_lines_skipped")
            yield Line(piece.number, None, too_long=True)
            whole = True
        else:
            place = Place(path, piece.number)
            yield Line(piece.number, decoded(piece.data, place, on_bad_utf8=on_bad_utf8, counts=counts))


def read_pieces(path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Line]:
    """Yield the lines of a running text; one longer than `LONGEST` comes as several."""
    whole = True
    for piece in cut(without_mark(blocks(path), path, counts), longest=LONGEST):
        counts.add("long_lines_cut", int(whole and not piece.ends))
        whole = piece.ends
        text = decoded(piece.data, Place(path, piece.number), on_bad_utf8=on_bad_utf8, counts=counts)
        yield Line(piece.number, text, too_long=not piece.ends)


def cut(data: Iterable[bytes], *, longest: int) -> Iterator[Piece]:
    """Cut blocks of bytes into lines, and lines longer than `longest` into pieces."""
    number, rest, after_return = 1, b"", False
    for block in data:
        joined = rest + (block[1:] if after_return and block.startswith(b"\n") else block)
        after_return = block.endswith(b"\r")  # a \n may follow that belongs to it
        *lines, rest = BREAKS.split(joined) if b"\r" in joined else joined.split(b"\n")
        for line in lines:
            *pieces, last = shortened(line, longest)
            for piece in pieces:
                yield Piece(number, piece, ends=False)
            yield Piece(number, last, ends=True)
            number += 1
        *pieces, rest = shortened(rest, longest)
        for piece in pieces:
            yield Piece(number, piece, ends=False)
    if rest:
        yield Piece(number, rest, ends=True)


def shortened(line: bytes, longest: int) -> list[bytes]:
    """Cut a line into pieces of `longest` bytes or just under, never inside a character."""
    pieces = []
    start = 0
    while len(line) - start > longest:
        stop = start + longest
        while stop > start + longest - 4 and line[stop] & 0xC0 == 0x80:
            stop -= 1
        pieces.append(line[start:stop])
        start = stop
    return [*pieces, line[start:] if start else line]


def without_mark(data: Iterator[bytes], path: Path, counts: Counts) -> Iterator[bytes]:
    """Take the byte order mark off, refusing those of other encodings."""
    first = next(data, b"")
    if first.startswith(OTHER_MARKS):
        raise InputError(f"{shown_path(path)}: this is UTF-16 or UTF-32: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if first.startswith(UTF8_MARK):
        counts.add("byte_order_marks")
        first = first[len(UTF8_MARK) :]
    if first:
        yield first
    yield from data


def decoded(data: bytes, place: Place, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> str | None:
    """Return the text of a line, or None where it is to be skipped."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if on_bad_utf8 == "refuse":
            raise InputError(
                f"{place}:{error.start + 1}: byte {error.start + 1} of this line is not UTF-8: mend it, or set "
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
