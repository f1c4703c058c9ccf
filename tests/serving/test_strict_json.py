"""A body means one thing, or is refused with a sentence."""

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
from sightline.serving.strict_json import DEEPEST, parse

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_ordinary_json_is_read_as_python_reads_it(value):
    data = json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert parse(data) == json.loads(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"NaN", "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b"[Infinity]", "Infinity is not a number"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"1E+309", "too large"),
        (b"1" * 250 + b".0e99", "too large"),
        (b"9223372036854775808", "whole number in the body is too large"),
        (b"-9223372036854775809", "whole number in the body is too large"),
        (b"1" * 5000, "whole number in the body is too large"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'["\\ud83d\\ud83d"]', "surrogate"),
        (b'{"a": 1, "a": 1}', "the key a is there twice"),
        (b'{"<b>": 1, "<b>": 1}', "a key is there twice"),
        (b"[" * 100_000, "nested more than 32 deep"),
        (b'{"a":' * 100_000, "nested more than 32 deep"),
        (b"[" * 100_000 + b"]" * 100_000, "nested more than 32 deep"),
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
def test_odd_json_is_refused_with_its_reason(data, reason):
    with pytest.raises(Problem, match=reason) as caught:
        parse(data)
    assert caught.value.status == 400


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_depth_is_allowed_up_to_the_limit_and_no_further(pair):
    def nested(depth: int) -> bytes:
        return (pair[0] * depth + "1" + pair[1] * depth).encode()

    assert parse(nested(DEEPEST))
    with pytest.raises(Problem, match="32 deep"):
        parse(nested(DEEPEST + 1))


def test_brackets_in_texts_are_no_depth():
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
"""Bodies of about so many bytes that would stop a reader who goes back in them, and why some are refused."""


@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused(kind):
    make, reason = LARGE[kind]
    data = make(1_000_000)
    with pytest.raises(Problem, match=reason) if reason else contextlib.nullcontext():
        assert parse(data) == json.loads(data)


def n_calls(data: bytes) -> int:
    """Return how many functions are called, Python's and C's, while a body is read or refused."""
    events = 0

    def count(*_: object) -> None:
        nonlocal events
        events += 1

    gc.disable()  # when it comes, and what it calls, is no affair of the reader's
    sys.setprofile(count)
    try:
        with contextlib.suppress(Problem):
            parse(data)
    finally:
        sys.setprofile(None)
        gc.enable()
    return events


@pytest.mark.parametrize("kind", LARGE)
def test_reading_takes_no_more_calls_for_a_larger_body(kind):
    """Nothing is done once for each part of a body, let alone for each pair of them."""
    make, _ = LARGE[kind]
    assert n_calls(make(100_000)) == n_calls(make(1000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte_of_anything_is_read_or_refused_soon(kind):
    """Nothing in reading is quadratic: a body of the largest size must not stop the server for long."""
    data = LARGE[kind][0](1_000_000)
    begun = time.process_time()
    with contextlib.suppress(Problem):
        parse(data)
    assert time.process_time() - begun < 5
