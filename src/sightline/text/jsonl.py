"""Read JSON Lines: one object per line, with the fields as its keys."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.storage import parse_object
from sightline.text.counts import Counts
from sightline.text.files import Location
from sightline.text.lines import OnBadUTF8, read_lines
from sightline.text.record import LISTS, Field, Record


def read_jsonl(
    path: Path, *, columns: Sequence[str], fields: Sequence[str], on_bad_utf8: OnBadUTF8, counts: Counts
) -> Iterator[Record]:
    """Yield the fields of every line; without `columns` the keys are the field names."""
    keys = columns or fields
    for line in read_lines(path, on_bad_utf8=on_bad_utf8, counts=counts):
        location = Location(path, line.number)
        if line.too_long:
            raise InputError(f"{location}: this line is longer than a megabyte: split it into several records")
        if line.text is None:
            continue
        if not line.text.strip():
            counts.add("blank")
            continue
        try:
            entries = parse_object(line.text.encode("utf-8"))
        except InputError as error:
            raise InputError(f"{location}: {error}") from None
        values = [get_field(entries, key, field, location) for key, field in zip(keys, fields, strict=True)]
        repaired = [repair_surrogates(value, location, on_bad_utf8=on_bad_utf8) for value in values]
        if any(value is None for value in repaired):
            counts.add("utf8_skipped")
            continue
        counts.add("utf8_replaced", int(repaired != values))
        yield Record(tuple(value for value in repaired if value is not None), location)


def get_field(entries: dict[str, object], key: str, field: str, location: Location) -> Field:
    """Return an entry as the text or list of texts its field needs."""
    if key not in entries:
        raise InputError(f"{location}: {unknown_name(key, entries, what='key')}: this line has {list_keys(entries)}")
    value = entries[key]
    if field in LISTS:
        return (
            tuple(item_text(item, key, location) for item in value)
            if isinstance(value, list)
            else refuse_type(key, "a list", location)
        )
    if field == "label" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else refuse_type(key, "text", location)


def item_text(item: object, key: str, location: Location) -> str:
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
                "fix it, or set data.on_bad_utf8 to replace or skip"
            ) from None
        replaced = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in value)
        return replaced if on_bad_utf8 == "replace" else None
    return value
