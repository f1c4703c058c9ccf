"""Running text: documents that end at a blank line, or one a line, or a whole file with its blank lines.

A document is read in pieces of whole lines, so that one of any size fits into memory; or line by line, for models that
learn which sentence follows which.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sightline.text.counts import Counts
from sightline.text.files import Place, require_file
from sightline.text.lines import OnBadUTF8, read_pieces
from sightline.text.record import Record

PIECE, SHORTEST_PIECE = 1 << 13, 1 << 7
"""Characters after which a piece ends with its line; of a small file it is a hundredth, so that it can be split."""

Unit = Literal["piece", "line"]
Documents = Literal["blank", "line", "file"]


def read_text(
    path: Path, *, unit: Unit, documents: Documents, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the pieces, or the lines, of every document; the last of each `ends` it."""
    lines = text_lines(path, documents=documents, on_bad_utf8=on_bad_utf8, counts=counts)
    return with_ends(lines if unit == "line" else joined(lines, longest=piece_of(path)))


def piece_of(path: Path) -> int:
    """Return how many characters a piece of a file has, about."""
    require_file(path)
    return max(SHORTEST_PIECE, min(PIECE, path.stat().st_size // 100))


def text_lines(path: Path, *, documents: Documents, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Record]:
    """Yield the lines, numbered by document; blank ones only where they are text like any other, in a whole file."""
    document = 0
    in_document = in_line = False
    for line in read_pieces(path, on_bad_utf8=on_bad_utf8, counts=counts):
        if line.text is None:
            continue
        blank = documents != "file" and not line.text.strip()
        if in_document and not in_line and (blank or documents == "line"):
            document += 1
            in_document = False
        in_line = line.too_long  # what follows belongs to the same line
        if not blank:
            in_document = True
            yield Record((line.text,), Place(path, line.number), document)


def joined(lines: Iterator[Record], *, longest: int) -> Iterator[Record]:
    r"""Yield the lines of a document together, \n between them, in pieces of `longest` characters or a little more.

    None is blank, for nothing could be learned from it: blank lines stay with the text before them, the first ones with
    that after them.
    """
    first: Record | None = None
    texts: list[str] = []
    size = 0
    has_text = False
    for line in lines:
        text = str(line.fields[0])
        if first is not None and line.document != first.document:
            yield first._replace(fields=("\n".join(texts),))
            first = None
        elif first is not None and size > longest and has_text and text.strip():
            yield first._replace(fields=("\n".join(texts) + "\n",))
            first = None
        if first is None:
            first, texts, size, has_text = line, [], 0, False
        texts.append(text)
        has_text = has_text or bool(text.strip())
        size += len(text) + 1
    if first is not None:
        yield first._replace(fields=("\n".join(texts),))


def with_ends(parts: Iterator[Record]) -> Iterator[Record]:
    """Mark the last part of every document."""
    last: Record | None = None
    for part in parts:
        if last is not None:
            yield last._replace(ends=part.document != last.document)
        last = part
    if last is not None:
        yield last
