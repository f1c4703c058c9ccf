"""The formats of a corpus: parallel files, JSON Lines, and running text, each read as records (TSV, CSV: `tables`)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from sightline.config import unknown_name
from sightline.data.corpora.files import (
    Counts,
    Line,
    Location,
    OnBadUTF8,
    display_path,
    file_state,
    read_line_parts,
    read_lines,
)
from sightline.data.corpora.records import LISTS, Field, Record
from sightline.errors import InputError, JSONError
from sightline.storage import parse_object


def read_parallel(source: Path, target: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts) -> Iterator[Record]:
    """Yield pairs of lines; files of different length are refused at the end."""
    suspect: int | None = None
    sides = (read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts) for path in (source, target))
    n_lines = [0, 0]
    for pair in zip_longest(*sides):
        for side, line in enumerate(pair):
            n_lines[side] += line is not None
        first, second = pair
        if first is None or second is None:
            continue  # count all lines, for the error message
        if suspect is None and looks_misaligned(first, second):
            suspect = first.number
        if first.text is not None and second.text is not None:
            yield Record((first.text, second.text), Location(source, first.number))
    if n_lines[0] != n_lines[1]:
        hint = f"line {suspect:,} is the first that looks misaligned" if suspect else "no line looks misaligned"
        raise InputError(
            f"{display_path(source)} has {n_lines[0]:,} lines and {display_path(target)} has {n_lines[1]:,}: parallel "
            f"files need the same number; {hint}"
        )


def looks_misaligned(first: Line, second: Line) -> bool:
    """Return whether two lines are unlikely to be translations of each other: one is blank, or much longer."""
    if first.text is None or second.text is None:
        return False
    short, long = sorted((len(first.text.strip()), len(second.text.strip())))
    return long > 4 * short + 20 or (short == 0 and long > 0)


def read_jsonl(
    path: Path, *, columns: Sequence[str], fields: Sequence[str], on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the fields of every line; without `columns` the keys are the field names."""
    keys = columns or fields
    for location, entries, text in read_entries(path, on_bad_utf8=on_bad_utf8, counts=counts):
        values = [get_field(entries, key, field, location) for key, field in zip(keys, fields, strict=True)]
        repaired = [repair_surrogates(value, location, on_bad_utf8=on_bad_utf8) for value in values]
        if any(value is None for value in repaired):
            counts.add("utf8_skipped")
            continue
        counts.add("utf8_replaced", int(repaired != values))
        yield Record(tuple(value for value in repaired if value is not None), location, raw=text)


def read_entries(
    path: Path, *, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[tuple[Location, dict[str, object], str]]:
    """Yield the entries of every line with its text, without blank lines."""
    for line in read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts):
        location = Location(path, line.number)
        if line.too_long:
            raise InputError(f"{location}: this line is longer than a megabyte: split it into several records")
        if line.text is None:
            continue
        if not line.text.strip():
            counts.add("blank")
            continue
        yield location, parse_entries(line.text, location), line.text


def parse_entries(text: str, location: Location) -> dict[str, object]:
    """Return the entries of a line of JSON Lines."""
    try:
        return parse_object(text.encode("utf-8"))
    except InputError as error:
        if isinstance(error, JSONError) and error.kind != "syntax":
            raise InputError(f"{location}: {error}") from None
        how = " (jq -c '.[]' makes that of an array)" if text.lstrip().startswith("[") else ""
        raise InputError(f"{location}: {error}: one object per line is expected{how}") from None


def get_field(entries: dict[str, object], key: str, field: str, location: Location) -> Field:
    """Return an entry as the text or list of texts its field needs."""
    if key not in entries:
        raise InputError(f"{location}: {unknown_name(key, entries, what='key')}: this line has {list_keys(entries)}")
    value = entries[key]
    if field in LISTS:
        return (
            tuple(get_item_text(item, key, location) for item in value)
            if isinstance(value, list)
            else refuse_type(key, "a list", location)
        )
    if field == "label" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else refuse_type(key, "text", location)


def get_item_text(item: object, key: str, location: Location) -> str:
    """Return the text of a list item: a string, or the `content` of a chat message."""
    content = item.get("content") if isinstance(item, dict) else item
    return (
        content
        if isinstance(content, str)
        else refuse_type(key, "a list of texts (or of chat messages with a content)", location)
    )


def refuse_type(key: str, kind: str, location: Location) -> str:
    """Refuse an entry of the wrong type."""
    raise InputError(f"{location}: {key[:60]!r} must be {kind}")


def list_keys(entries: dict[str, object]) -> str:
    """Return the keys of a line, for an error message."""
    return ", ".join(repr(key[:60]) for key in list(entries)[:20]) or "none"


def repair_surrogates(value: Field, location: Location, *, on_bad_utf8: OnBadUTF8) -> Field | None:
    r"""Return a value without lone surrogates, which JSON can contain ("\ud800") and Unicode text cannot."""
    if isinstance(value, tuple):
        items = [repair_surrogates(item, location, on_bad_utf8=on_bad_utf8) for item in value]
        return None if None in items else tuple(item for item in items if isinstance(item, str))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        if on_bad_utf8 == "refuse":
            raise InputError(
                f"{location}: U+{ord(value[error.start]):04X} is a lone surrogate, which is not valid Unicode text: "
                "fix it",
                setting="data.on_bad_utf8",
                advice="set {} to replace or skip",
            ) from None
        replaced = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in value)
        return replaced if on_bad_utf8 == "replace" else None
    return value


Unit = Literal["chunk", "line"]
DocumentSeparator = Literal["blank", "line", "file"]


def read_text(
    paths: Sequence[Path],
    *,
    unit: Unit,
    documents: DocumentSeparator,
    on_bad_utf8: OnBadUTF8,
    counts: Counts,
    keep: Callable[[Record], bool] | None = None,
) -> Iterator[Record]:
    """Yield the chunks, or the lines, of every document; the last of each has `ends` set.

    A document is read in chunks of whole lines, so that one of any size fits into memory; or line by line, for
    next-sentence prediction. It ends with its file. Lines that are not to be kept are left out.
    """
    lines = read_document_lines(paths, documents=documents, on_bad_utf8=on_bad_utf8, counts=counts)
    kept = filter(keep, lines) if keep is not None else lines
    return mark_ends(kept if unit == "line" else join_lines(kept, chunk_size=chunk_size_for(paths)))


def read_document_lines(
    paths: Sequence[Path], *, documents: DocumentSeparator, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the lines of all files, numbered by document."""
    first = 0
    for path in paths:
        last = first
        for line in read_file_lines(path, first, documents=documents, on_bad_utf8=on_bad_utf8, counts=counts):
            last = line.document
            yield line
        first = last + 1


def read_file_lines(
    path: Path, document: int, *, documents: DocumentSeparator, on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the lines, numbered by document; blank lines are kept only where the whole file is one document."""
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


MAX_CHUNK, MIN_CHUNK = 1 << 13, 1 << 7
"""Characters after which a chunk ends with its line; a hundredth of a small corpus, so that it can be split."""


def chunk_size_for(paths: Sequence[Path]) -> int:
    """Return the approximate chunk size of the files of a corpus, in characters."""
    return max(MIN_CHUNK, min(MAX_CHUNK, sum(file_state(path)[0] for path in paths) // 100))


def mark_ends(parts: Iterator[Record]) -> Iterator[Record]:
    """Set `ends` on the last part of every document only."""
    last: Record | None = None
    for part in parts:
        if last is not None:
            yield last._replace(ends=part.document != last.document)
        last = part
    if last is not None:
        yield last
