"""A body is unambiguous, or is refused with a message."""

import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.serving.problem import Problem
from sightline.serving.strict_json import MAX_DEPTH, parse

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_ordinary_json_is_parsed_as_python_does(value):
    data = json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert parse(data) == json.loads(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"[Infinity]", "Infinity is not a JSON number"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"1E+309", "too large"),
        (b"1" * 250 + b".0e99", "too large"),
        (b"9223372036854775808", "integer in the body is too large"),
        (b"-9223372036854775809", "integer in the body is too large"),
        (b"1" * 5000, "integer in the body is too large"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'["\\ud83d\\ud83d"]', "surrogate"),
        (b'{"a": 1, "a": 1}', "duplicate key: a"),
        (b'{"<b>": 1, "<b>": 1}', "duplicate key in one object"),
        (b"[" * 100_000, "nested more than 32 levels deep"),
        (b'{"a":' * 100_000, "nested more than 32 levels deep"),
        (b"[" * 100_000 + b"]" * 100_000, "nested more than 32 levels deep"),
        (b"\xff", "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{} {}", "not JSON"),
        (b"{}x", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"[1,]", "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b"\x00", "not JSON"),
        (b" ", "not JSON"),
        (b"tru", "not JSON"),
    ],
)
def test_invalid_json_is_refused_with_the_reason(data, reason):
    with pytest.raises(Problem, match=reason) as caught:
        parse(data)
    assert caught.value.status == 400


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_depth_is_allowed_up_to_the_limit_and_no_further(pair):
    def nested(depth: int) -> bytes:
        return (pair[0] * depth + "1" + pair[1] * depth).encode()

    assert parse(nested(MAX_DEPTH))
    with pytest.raises(Problem, match="32 levels deep"):
        parse(nested(MAX_DEPTH + 1))


def test_brackets_in_strings_do_not_count_as_depth():
    text = "[{" * 1000 + '"\\'
    assert parse(json.dumps([text]).encode()) == [text]


def test_whole_surrogate_pair_is_a_character():
    assert parse(b'"\\ud83d\\ude00"') == "😀"


LARGE: dict[str, tuple[Callable[[int], bytes], str | None]] = {
    "numbers": (lambda n: b"[" + b"1," * (n // 2) + b"1]", None),
    "lists": (lambda n: b"[" * 31 + b"[]," * (n // 3) + b"[]" + b"]" * 31, None),
    "quotes": (lambda n: b'["' + b'\\"' * (n // 2) + b'"]', None),
    "no end": (lambda n: b'{"a":"' + b'\\"' * (n // 2), "not JSON"),
    "escapes": (lambda n: b'["\\u0041' + b"a" * n + b'"]', None),
}
"""Bodies of about n bytes that would block a backtracking parser, and why some are refused."""


@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused(kind):
    make, reason = LARGE[kind]
    data = make(1_000_000)
    with pytest.raises(Problem, match=reason) if reason else contextlib.nullcontext():
        assert parse(data) == json.loads(data)


def n_calls(data: bytes) -> int:
    """Return the number of function calls, in Python and C, while a body is parsed or refused."""
    events = 0

    def count(*_: object) -> None:
        nonlocal events
        events += 1

    gc.disable()  # its calls do not belong to the parser
    sys.setprofile(count)
    try:
        with contextlib.suppress(Problem):
            parse(data)
    finally:
        sys.setprofile(None)
        gc.enable()
    return events


@pytest.mark.parametrize("kind", LARGE)
def test_parsing_takes_no_more_calls_for_a_larger_body(kind):
    """No Python or C function is called once for each part of a body, let alone for each pair."""
    make, _ = LARGE[kind]
    assert n_calls(make(100_000)) == n_calls(make(1000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused_soon(kind):
    """Parsing is not quadratic: a body of maximum size must not block the server for long."""
    data = LARGE[kind][0](1_000_000)
    begun = time.process_time()
    with contextlib.suppress(Problem):
        parse(data)
    assert time.process_time() - begun < 5
