"""Stop strings end a text, are no part of it, and no part of one is ever shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.pipelines.stop_strings import StopStrings

TEXTS = st.text("ab\n�", max_size=12)
STOPS = st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=3)


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one two", ["\n"], "one two"),
        ("one\n", ["\n\n"], "one"),
        ("one\n\ntwo", ["\n\n"], "one"),
        ("abc", ["cd", "bcx"], "a"),
        ("abab", ["abac"], "ab"),
        ("x�", [], "x"),
        ("", ["a"], ""),
    ],
)
def test_only_stable_text_is_shown(text, stops, expected):
    assert StopStrings(stops).stable(text) == expected


@given(text=TEXTS, stops=STOPS)
def test_stable_text_is_the_beginning_of_every_later_one(text, stops):
    """And of the final text, whatever ends it."""
    rules, before = StopStrings(stops), ""
    for count in range(len(text) + 1):
        stable = rules.stable(text[:count])
        if "�" not in text:  # an incomplete character becomes another one
            assert stable.startswith(before)
            assert rules.trim(text, "eos").startswith(stable)
        before = stable


@given(text=TEXTS, stops=STOPS)
def test_text_is_complete_exactly_if_something_is_cut(text, stops):
    is_complete = StopStrings(stops).predicate(lambda ids: text)
    assert (is_complete is None) == (not stops)
    assert (StopStrings(stops).cut(text) != text) == (is_complete is not None and is_complete([]))
    assert not any(stop in StopStrings(stops).trim(text, "stop") for stop in stops)


def test_character_that_the_limit_cut_in_two_is_removed():
    rules = StopStrings(["."])
    assert [rules.trim("so�", reason) for reason in ("length", "eos")] == ["so", "so�"]
    assert rules.trim("s�.o�", "length") == "s�"
