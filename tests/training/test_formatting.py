"""Numbers and texts as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.training.formatting import MAX_CHARACTERS, Sample, escape_control, format_duration, format_value


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"), (0.4, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (160, "2 min 40 s"), (725, "12 min"), (3600, "1 h"),
        (11_100, "3 h 5 min"), (40_000, "11 h"), (90_000, "1 d 1 h"), (10**9, "11574 d"),
    ],
)  # fmt: skip
def test_duration_has_two_units_at_most(seconds, words):
    assert format_duration(seconds) == words


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("loss", float("nan"), "loss nan"), ("loss", 3, "loss 3.000"),
        ("bits_per_character", 1.2345, "bits per character 1.234"),
        ("tokens", 12_345, "tokens 12,345"), ("tiny", 1e-7, "tiny 1e-07"), ("exact", 0.0, "exact 0.000"),
        ("who", "me\n", "who me\\n"),
    ],
)  # fmt: skip
def test_value_is_shown_with_its_name(name, value, text):
    assert format_value(name, value) == text


@given(st.text(alphabet=st.characters(codec=None)))
def test_visible_text_holds_nothing_that_steers(text):
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in escape_control(text))


def test_long_text_is_cut():
    assert all(len(text) == MAX_CHARACTERS for _, text in Sample("x" * 999, "\n" * 999, "z" * 999).parts())
