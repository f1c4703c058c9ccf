"""Strict parsing of untrusted JSON: no duplicate keys, no NaN, a bounded number of elements.

Python's parser accepts the first two and spends up to thirty times the file's size on the third.
"""

import json
from typing import NoReturn

from sightline.errors import InputError

# The largest tokenizers in use have about half a million lists and a million and a half commas.
MAX_MARKS = {b"{": 100_000, b"[": 1_000_000, b",": 2_000_000}


def parse_json(data: bytes) -> object:
    """Return what the JSON says, or refuse it with a one-line message."""
    for mark, limit in MAX_MARKS.items():
        if data.count(mark) > limit:
            raise InputError(f"this JSON has more than {limit:,} {mark.decode()!r}: too many for a model")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)
    except UnicodeDecodeError as error:
        raise InputError(f"this is not JSON: byte {error.start:,} is not UTF-8") from None
    except RecursionError:
        raise InputError("this JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}") from None


def parse_object(data: bytes) -> dict[str, object]:
    """Return the JSON object, refusing any other value."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InputError("this JSON is not an object with named entries")
    return value


def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing duplicate keys, of which other parsers may take another one."""
    entries: dict[str, object] = {}
    for key, value in pairs:
        if key in entries:
            raise InputError(f"duplicate key {key[:60]!r}")
        entries[key] = value
    return entries


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise InputError(f"{name} is not a JSON number")
