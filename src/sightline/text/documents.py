"""Running text: documents separated by blank lines, one document per line, or one per file.

A document is read in chunks of whole lines, so that one of any size fits into memory; or line by line, for
next-sentence prediction.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sightline.text.counts import Counts
from sightline.text.files import Location, require_file
from sightline.text.lines import OnBadUTF8, read_line_parts
from sightline.text.record import Record

MAX_CHUNK, MIN_CHUNK = 1 << 13, 1 << 7
"""Characters after which a chunk ends with its line; a hundredth of a small file, so that it can be split."""

Unit = Literal["chunk", "line"]
DocumentSeparator = Literal["blank", "line", "file"]


def read_text(
    path: Path, *, unit: Unit, documents: DocumentSeparator, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the chunks, or the lines, of every document; the last of each has `ends` set."""
    lines = text_lines(path, documents=documents, on_bad_utf8=on_bad_utf8, counts=counts)
    return mark_ends(lines if unit == "line" else join_lines(lines, chunk_size=chunk_size_for(path)))


def chunk_size_for(path: Path) -> int:
    """Return the approximate chunk size of a file, in characters."""
    require_file(path)
    return max(MIN_CHUNK, min(MAX_CHUNK, path.stat().st_size // 100))


def text_lines(path: Path, *, documents: DocumentSeparator, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Record]:
    """Yield the lines, numbered by document; blank lines are kept only where the whole file is one document."""
    document = 0
    in_document = in_line = False
    for line in read_line_parts(path, on_bad_utf8=on_bad_utf8, counts=counts):
        if line.text is None:
            continue
        blank = documents != "file" and not line.text.strip()
        if in_document and not in_line and (blank or documents == "line"):
            document += 1
            in_document = False
        in_line = line.too_long  # the next part belongs to the same line
        if not blank:
            in_document = True
            yield Record((line.text,), Location(path, line.number), document)


def join_lines(lines: Iterator[Record], *, chunk_size: int) -> Iterator[Record]:
    r"""Yield the lines of each document joined by \n, in chunks of `chunk_size` characters or a little more.

    No chunk is blank, as it would be dropped: blank lines stay with the text before them, leading ones with the text
    after them.
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
        elif first is not None and size > chunk_size and has_text and text.strip():
            yield first._replace(fields=("\n".join(texts) + "\n",))
            first = None
        if first is None:
            first, texts, size, has_text = line, [], 0, False
        texts.append(text)
        has_text = has_text or bool(text.strip())
        size += len(text) + 1
    if first is not None:
        yield first._replace(fields=("\n".join(texts),))


def mark_ends(parts: Iterator[Record]) -> Iterator[Record]:
    """Set `ends` on the last part of every document only."""
    last: Record | None = None
    for part in parts:
        if last is not None:
            yield last._replace(ends=part.document != last.document)
        last = part
    if last is not None:
        yield last
