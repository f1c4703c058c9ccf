"""A request's JSON, read so that nobody can mean two things by it, and nothing in it can fail later.

Python's parser takes NaN, numbers that overflow, the same key twice and halves of surrogate pairs; each of them has
made servers answer 500. All are refused here with a sentence. What is read is at most as large as a body may be.
"""

import json
import math
import re
from typing import NoReturn

from sightline.serving.problem import Problem, plain

DEEPEST = 32
LARGEST = 1 << 63
EXACT = 1 << 53
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
LONG = re.compile(r"[0-9]{19}")  # no shorter whole number is too large
BRACKETS: dict[int, int | None] = {**dict.fromkeys(range(128)), **str.maketrans("[{]}", "[[]]")}


def parse(data: bytes) -> object:
    """Return what the JSON says, or raise the problem with it."""
    text = decoded(data)
    try:
        value = json.loads(
            text,
            object_pairs_hook=without_duplicates,
            parse_constant=refuse_constant,
            parse_float=finite,
            parse_int=ordinary if LONG.search(text) else None,
        )
    except RecursionError:
        raise too_deep() from None
    except json.JSONDecodeError as error:
        raise refused(f"the body is not JSON: line {error.lineno:,}, column {error.colno:,}: {error.msg}") from None
    if depth_exceeds(text, DEEPEST):
        raise too_deep()
    if "\\u" in text:
        refuse_surrogates(value)
    return value


def decoded(data: bytes) -> str:
    """Return the bytes as text."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise refused("the body begins with a byte order mark: send JSON without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"the body is not UTF-8: byte {error.start:,} is wrong") from None


def depth_exceeds(text: str, deepest: int) -> bool:
    """Return whether valid JSON is nested deeper: one level is taken away at a time, each in one quick pass."""
    if text.count("[") + text.count("{") <= deepest:
        return False
    brackets = STRING.sub("", text).translate(BRACKETS)
    for _ in range(deepest):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "")
    return bool(brackets)


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing a key that comes twice: two readers could take different ones."""
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            name = plain(key)
            raise refused(f"the key {name} is there twice" if name else "a key is there twice in one object")
        seen.add(key)
    return entries


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise refused(f"{name} is not a number JSON knows")


def finite(digits: str) -> int | float:
    """Return the number, unless it is too large to be one; in JSON 8.0 is the whole number 8."""
    number = float(digits)
    if not math.isfinite(number):
        raise refused("a number in the body is too large")
    return int(number) if number.is_integer() and abs(number) < EXACT else number


def ordinary(digits: str) -> int:
    """Return the whole number, unless it is too large for anybody to mean it."""
    if len(digits) > 20 or not -LARGEST <= (number := int(digits)) < LARGEST:
        raise refused("a whole number in the body is too large")
    return number


def refuse_surrogates(value: object) -> None:
    """Refuse half of a surrogate pair anywhere: it is no character, and nothing can encode it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise refused(
            "a text in the body has half of a surrogate pair (\\ud800 to \\udfff), which is no character"
        ) from None


def too_deep() -> Problem:
    """Return the refusal of JSON that is nested without end."""
    return refused(f"the JSON is nested more than {DEEPEST} deep")


def refused(message: str) -> Problem:
    """Return the problem with a body."""
    return Problem(400, message, code="invalid_json")
