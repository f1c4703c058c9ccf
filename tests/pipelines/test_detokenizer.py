"""Detokenization while text is generated: never half a character, and in the end the whole text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sightline.data.tokenizers import train_tokenizer
from sightline.pipelines.detokenizer import IncrementalDetokenizer

from .tiny import BPE, CHARACTERS, LINES

WORDPIECE = train_tokenizer("wordpiece", LINES, vocab_size=560)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS, WORDPIECE], ids=["bpe", "characters", "wordpiece"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(st.sampled_from("a 漢👩\u200d👧é\u0301�\n"))


@TOKENIZERS
@given(text=TEXTS)
@settings(max_examples=60)
def test_text_grows_to_the_whole_text_without_half_characters(tokenizer, text):
    ids, detokenizer = tokenizer.encode(text), IncrementalDetokenizer(tokenizer)
    before = ""
    for count in range(len(ids) + 1):
        stable = detokenizer(ids[:count])
        assert stable.startswith(before)
        assert text.startswith(stable)
        before = stable
    assert detokenizer.decode_all(ids) == text


@TOKENIZERS
@given(ids=st.lists(st.integers(3, 600), max_size=14))
@settings(max_examples=60)
def test_stable_text_is_never_taken_back(tokenizer, ids):
    """Whatever a model generates: bytes that are not a character, ids without a token."""
    growing, before = IncrementalDetokenizer(tokenizer), ""
    for count in range(len(ids) + 1):
        stable = growing(ids[:count])
        assert stable.startswith(before)
        assert IncrementalDetokenizer(tokenizer)(ids[:count]) == stable
        before = stable
    assert growing.decode_all(ids).startswith(before)


@TOKENIZERS
def test_replacement_character_may_itself_be_text(tokenizer):
    """U+FFFD three times, then a character whose first bytes look like a fourth."""
    ids, detokenizer, text = tokenizer.encode("a���漢 "), IncrementalDetokenizer(tokenizer), "a���漢 "
    assert all(text.startswith(detokenizer(ids[:count])) for count in range(len(ids)))
    assert detokenizer(ids) == text


@TOKENIZERS
def test_emoji_of_many_tokens_appears_at_once(tokenizer):
    ids = tokenizer.encode("👍")
    detokenizer = IncrementalDetokenizer(tokenizer)
    assert [detokenizer(ids[:count]) for count in range(1, len(ids))] == [""] * (len(ids) - 1)
    assert detokenizer(ids) == "👍"


@TOKENIZERS
@given(context=TEXTS, text=TEXTS)
@example(context="€€𐍈", text="C")  # the eighth id from the end stands within a character
@example(context="漢字漢字漢字", text="漢")
@settings(max_examples=200)
def test_context_is_not_part_of_the_text(tokenizer, context, text):
    assert IncrementalDetokenizer(tokenizer, tokenizer.encode(context)).decode_all(tokenizer.encode(text)) == text
