"""Corpora of one JSON object a line, with the wanted fields as its entries."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.text.counts import Counts
from sightline.text.files import Place
from sightline.text.lines import OnBadUTF8, read_lines
from sightline.text.record import LISTS, Field, Record
from sightline.text.strict_json import parse_object


def read_jsonl(
    path: Path, *, columns: Sequence[str], fields: Sequence[str], on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the wanted entries of every line; without `columns` they are named like the fields."""
    keys = columns or fields
    for line in read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts):
        place = Place(path, line.number)
        if line.too_long:
            raise InputError(f"{place}: this line is longer than a megabyte: cut it into several records")
        if line.text is None:
            continue
        if not line.text.strip():
            counts.add("blank")
            continue
        try:
            entries = parse_object(line.text.encode("utf-8"))
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        values = [wanted(entries, key, field, place) for key, field in zip(keys, fields, strict=True)]
        whole = [mended(value, place, on_bad_utf8=on_bad_utf8) for value in values]
        if any(value is None for value in whole):
            counts.add("utf8_skipped")
            continue
        counts.add("utf8_replaced", int(whole != values))
        yield Record(tuple(value for value in whole if value is not None), place)


def wanted(entries: dict[str, object], key: str, field: str, place: Place) -> Field:
    """Return an entry as the text or the list of texts it has to be."""
    if key not in entries:
        raise InputError(f"{place}: {unknown_name(key, entries, what='key')}: this line has {names(entries)}")
    value = entries[key]
    if field in LISTS:
        return (
            tuple(turn(item, key, place) for item in value) if isinstance(value, list) else wrong(key, "a list", place)
        )
    if field == "label" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else wrong(key, "text", place)


def turn(item: object, key: str, place: Place) -> str:
    """Return an item of a list: a text, or the `content` of a chat message."""
    content = item.get("content") if isinstance(item, dict) else item
    return content if isinstance(content, str) else wrong(key, "a list of texts (or of messages with a content)", place)


def wrong(key: str, kind: str, place: Place) -> str:
    """Refuse an entry of the wrong type."""
    raise InputError(f"{place}: {key[:60]!r} must be {kind}")


def names(entries: dict[str, object]) -> str:
    """Return the keys of a line for a message."""
    return ", ".join(repr(key[:60]) for key in list(entries)[:20]) or "none"


def mended(value: Field, place: Place, *, on_bad_utf8: OnBadUTF8) -> Field | None:
    r"""Return a value without halves of surrogate pairs: JSON can spell them ("\ud800"), Unicode knows none."""
    if isinstance(value, tuple):
        items = [mended(item, place, on_bad_utf8=on_bad_utf8) for item in value]
        return None if None in items else tuple(item for item in items if isinstance(item, str))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        if on_bad_utf8 == "refuse":
            raise InputError(
                f"{place}: U+{ord(value[error.start]):04X} is half of a surrogate pair, which is not Unicode text: "
                "mend it, or set data.on_bad_utf8 to replace or skip"
            ) from None
        whole = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in value)
        return whole if on_bad_utf8 == "replace" else None
    return value
