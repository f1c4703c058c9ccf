"""JSON that someone else wrote, read without surprises: no key twice, no NaN, no more parts than anyone means.

Python's parser is lenient about the first two and spends up to thirty times the file's size on the third.
"""

import json
from typing import NoReturn

from sightline.errors import InputError

# The largest tokenizers in use have about half a million lists and a million and a half commas.
MOST = {b"{": 100_000, b"[": 1_000_000, b",": 2_000_000}


def parse_json(data: bytes) -> object:
    """Return what the JSON says, or refuse it in one sentence."""
    for mark, most in MOST.items():
        if data.count(mark) > most:
            raise InputError(f"this JSON has more than {most:,} {mark.decode()!r}: no model needs so many")
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=without_duplicates, parse_constant=refuse_constant)
    except UnicodeDecodeError as error:
        raise InputError(f"this is not JSON: byte {error.start:,} is not UTF-8") from None
    except RecursionError:
        raise InputError("this JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}") from None


def parse_object(data: bytes) -> dict[str, object]:
    """Return the one object the JSON holds."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InputError("this JSON is not an object with named entries")
    return value


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing a key that comes twice: two readers could take different ones."""
    entries: dict[str, object] = {}
    for key, value in pairs:
        if key in entries:
            raise InputError(f"the key {key[:60]!r} is there twice")
        entries[key] = value
    return entries


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise InputError(f"{name} is not a number JSON knows")
