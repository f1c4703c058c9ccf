"""Strict JSON: unambiguous, and without values that fail later.

Python's parser accepts NaN, numbers that overflow, duplicate keys and unpaired surrogates; each of them has made
servers respond 500. All are refused here with a message. The input is at most as large as the body limit.
"""

import json
import math
import re
from typing import NoReturn

from sightline.serving.problem import Problem, plain

MAX_DEPTH = 32
INT64_LIMIT = 1 << 63
EXACT_FLOAT_LIMIT = 1 << 53
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
LONG_INTEGER = re.compile(r"[0-9]{19}")  # no shorter integer is too large
BRACKETS: dict[int, int | None] = {**dict.fromkeys(range(128)), **str.maketrans("[{]}", "[[]]")}


def parse(data: bytes) -> object:
    """Return the parsed JSON, or raise a `Problem`."""
    text = decode(data)
    try:
        value = json.loads(
            text,
            object_pairs_hook=build_object,
            parse_constant=refuse_constant,
            parse_float=parse_float,
            parse_int=parse_int if LONG_INTEGER.search(text) else None,
        )
    except RecursionError:
        raise too_deep() from None
    except json.JSONDecodeError as error:
        raise invalid_json(
            f"the body is not JSON: line {error.lineno:,}, column {error.colno:,}: {error.msg}"
        ) from None
    if depth_exceeds(text, MAX_DEPTH):
        raise too_deep()
    if "\\u" in text:
        refuse_surrogates(value)
    return value


def decode(data: bytes) -> str:
    """Return the bytes as text."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise invalid_json("the body starts with a byte order mark: send JSON without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid_json(f"the body is not UTF-8: byte {error.start:,} is invalid") from None


def depth_exceeds(text: str, max_depth: int) -> bool:
    """Return whether valid JSON is nested deeper; removes one level at a time, each in one fast pass."""
    if text.count("[") + text.count("{") <= max_depth:
        return False
    brackets = STRING.sub("", text).translate(BRACKETS)
    for _ in range(max_depth):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "")
    return bool(brackets)


def build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; refuse duplicate keys, of which two parsers could take different ones."""
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            name = plain(key)
            raise invalid_json(f"duplicate key: {name}" if name else "duplicate key in one object")
        seen.add(key)
    return entries


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise invalid_json(f"{name} is not a JSON number")


def parse_float(digits: str) -> int | float:
    """Return the number, refusing one that overflows; in JSON 8.0 is the integer 8."""
    number = float(digits)
    if not math.isfinite(number):
        raise invalid_json("a number in the body is too large")
    return int(number) if number.is_integer() and abs(number) < EXACT_FLOAT_LIMIT else number


def parse_int(digits: str) -> int:
    """Return the integer, refusing one of more than 64 bits."""
    if len(digits) > 20 or not -INT64_LIMIT <= (number := int(digits)) < INT64_LIMIT:
        raise invalid_json("an integer in the body is too large")
    return number


def refuse_surrogates(value: object) -> None:
    """Refuse unpaired surrogates anywhere: they are not characters and cannot be encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise invalid_json(
            "a text in the body has an unpaired surrogate (\\ud800 to \\udfff), which is not a character"
        ) from None


def too_deep() -> Problem:
    """Return the refusal of JSON that is nested too deeply."""
    return invalid_json(f"the JSON is nested more than {MAX_DEPTH} levels deep")


def invalid_json(message: str) -> Problem:
    """Return the refusal of a body."""
    return Problem(400, message, code="invalid_json")
