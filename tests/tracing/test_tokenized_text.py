"""Tokens grouped into words, and the alignment of words from cross-attention."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tiny import BPE, CHARACTERS
from sightline.tasks import pipeline_for
from sightline.tracing.tokenized_text import Token, find_links, group_words, word_indices, word_spans

from .models import BUNDLES, SENTENCE

TEXTS = st.text(st.sampled_from("the cat 漢字ไทย👩\u200d👧 \n\tü.éשָׁ"), min_size=1, max_size=14)


@pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS], ids=["bpe", "characters"])
@given(text=TEXTS)
def test_every_token_is_part_of_one_word_in_order(tokenizer, text):
    spans, ids = tokenizer.offsets(text), tokenizer.encode(text)
    tokens = [Token(id_, tokenizer.token_text(id_), *span) for id_, span in zip(ids, spans, strict=True)]
    words = group_words(text, tokens)
    assert [place for word in words for place in word.tokens] == list(range(len(tokens)))
    for word in words:
        assert word.text == text[word.start : word.end]


def test_words_are_what_stands_between_blanks_or_a_token_where_there_are_none():
    def words(text: str) -> list[str]:
        tokens = [Token(0, text[at], at, at + 1) for at in range(len(text))]
        return [word.text for word in group_words(text, tokens) if word.text.strip()]

    assert words("the cat, ja") == ["the", "cat,", "ja"]
    assert words("漢字 ok") == ["漢", "字", "ok"]
    assert words("שלום עולם") == ["שלום", "עולם"]


def test_words_of_several_tokens_are_added_up():
    """Source "aa b" in three tokens, target "x yy" in three."""
    attention = np.array([[0.3, 0.4, 0.3], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    found = find_links(
        attention,
        source="aa b",
        source_spans=[(0, 1), (1, 2), (2, 4)],
        target="x yy",
        target_spans=[(0, 1), (1, 3), (3, 4)],
    )
    shown = [(link.source_start, link.source_end, link.target_start, link.target_end) for link in found]
    assert shown == [(0, 2, 0, 1), (3, 4, 2, 4)]
    assert [link.weight for link in found] == pytest.approx([0.7, 0.7])


def test_second_word_is_linked_if_it_got_half_as_much():
    found = find_links(
        np.array([[0.6, 0.3, 0.1]]),
        source="a b c",
        source_spans=[(0, 1), (1, 3), (3, 5)],
        target="x",
        target_spans=[(0, 1)],
    )
    assert [link.source_start for link in found] == [0, 2]


def test_white_space_belongs_to_no_word():
    assert word_indices([(0, 1), (1, 2), (2, 3)], "a b", word_spans("a b")) == [0, None, 1]


@pytest.mark.parametrize("make", ["transformer", "two vocabularies", "languages"])
def test_links_of_a_trace_are_those_of_the_translator(make):
    translator = pipeline_for(BUNDLES[make]())
    to = "de" if translator.languages else None
    [[translation]] = translator.translations([SENTENCE], to=to, alignment=True)
    alignment = translator.trace(SENTENCE, to=to, activations=(), heads=[0]).alignment
    assert alignment.attention == "decoder.1.cross_attention"
    assert "not alignment" in alignment.warning
    ours, theirs = alignment.links, translation.alignment
    assert [link.source_start for link in ours] == [link.source_start for link in theirs]
    assert [link.weight for link in ours] == pytest.approx([link.weight for link in theirs], abs=1e-5)
