"""Text that grows with its ids: never half a character, and in the end all of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.pipelines.spelling import Speller
from sightline.pipelines.stream import certain
from sightline.text import train_tokenizer

from .tiny import BPE, CHARACTERS, LINES

WORDPIECE = train_tokenizer("wordpiece", LINES, vocab_size=560)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS, WORDPIECE], ids=["bpe", "characters", "wordpiece"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(st.sampled_from("a 漢👩\u200d👧é\u0301�\n"))


@TOKENIZERS
@given(text=TEXTS)
@settings(max_examples=60)
def test_text_grows_to_the_whole_text_without_half_characters(tokenizer, text):
    ids, speller = tokenizer.encode(text), Speller(tokenizer)
    before = ""
    for count in range(len(ids) + 1):
        settled = speller(ids[:count])
        assert settled.startswith(before)
        assert text.startswith(settled)
        before = settled
    assert speller.whole(ids) == text


@TOKENIZERS
@given(ids=st.lists(st.integers(3, 600), max_size=14))
@settings(max_examples=60)
def test_settled_text_is_never_taken_back(tokenizer, ids):
    """Whatever nonsense a model writes: bytes that are no character, ids without a token."""
    growing, before = Speller(tokenizer), ""
    for count in range(len(ids) + 1):
        settled = growing(ids[:count])
        assert settled.startswith(before)
        assert Speller(tokenizer)(ids[:count]) == settled
        before = settled
    assert growing.whole(ids).startswith(before)


@TOKENIZERS
def test_sign_for_no_character_may_itself_be_text(tokenizer):
    """U+FFFD three times, then a character whose first bytes look like a fourth."""
    ids, speller, text = tokenizer.encode("a���漢 "), Speller(tokenizer), "a���漢 "
    assert all(text.startswith(speller(ids[:count])) for count in range(len(ids)))
    assert speller(ids) == text


@TOKENIZERS
def test_emoji_of_many_tokens_appears_at_once(tokenizer):
    ids = tokenizer.encode("👍")
    speller = Speller(tokenizer)
    assert [speller(ids[:count]) for count in range(1, len(ids))] == [""] * (len(ids) - 1)
    assert speller(ids) == "👍"


@TOKENIZERS
@given(context=TEXTS, text=TEXTS)
def test_context_is_no_part_of_the_text(tokenizer, context, text):
    assert Speller(tokenizer, tokenizer.encode(context)).whole(tokenizer.encode(text)) == text


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
def test_only_what_is_certain_is_shown(text, stops, expected):
    assert certain(text, stops) == expected
