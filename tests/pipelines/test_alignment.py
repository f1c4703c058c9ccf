"""Which words looked at which: spans of whole words, inside their texts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings
from sightline.pipelines import pipeline_for
from sightline.pipelines.alignment import links, word_spans, words_of, written_spans

from .tiny import BPE, CHARACTERS, many_languages_bundle, translator_bundle, two_vocabularies_bundle

MAKERS = [translator_bundle, two_vocabularies_bundle, many_languages_bundle]
TEXTS = st.text(st.sampled_from("the cat 漢字👩\u200d👧 \n\tü.é"), max_size=14)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
@settings(max_examples=5)
def test_links_join_whole_words_inside_their_texts(make, texts):
    translator = pipeline_for(make())
    to = "de" if translator.languages else None
    way = DecodingSettings(beam=2, n_best=2, max_length=8, min_length=4)
    for text, found in zip(texts, translator.translations(texts, to=to, alignment=True, settings=way), strict=True):
        for translation in found:
            for link in translation.alignment:
                assert (link.source_start, link.source_end) in word_spans(text)
                assert (link.target_start, link.target_end) in word_spans(translation.text)
                assert 0 < link.weight <= 1.00001


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_alignment_of_many_is_that_of_each(make):
    translator = pipeline_for(make())
    to = "de" if translator.languages else None
    texts = ["the cat sat on the mat", "x", "", "a dog ran", "où est la gare ?"]
    together = translator.translations(texts, to=to, alignment=True)
    for text, ours in zip(texts, together, strict=True):
        [theirs] = translator.translations([text], to=to, alignment=True)
        assert [link.source_start for link in ours[0].alignment] == [link.source_start for link in theirs[0].alignment]
        weights = [[link.weight for link in one[0].alignment] for one in (ours, theirs)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-5)


def test_alignment_changes_no_translation():
    translator = pipeline_for(translator_bundle())
    [plain], [aligned] = (translator.translations(["the cat sat"], alignment=wanted) for wanted in (False, True))
    assert plain[0].alignment is None
    assert (plain[0].text, plain[0].score) == (aligned[0].text, aligned[0].score)


def test_words_of_several_tokens_are_added_up():
    """Source "aa b" in three tokens, target "x yy" in three."""
    attention = torch.tensor([[0.3, 0.4, 0.3], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    found = links(
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
    found = links(
        torch.tensor([[0.6, 0.3, 0.1]]),
        source="a b c",
        source_spans=[(0, 1), (1, 3), (3, 5)],
        target="x",
        target_spans=[(0, 1)],
    )
    assert [link.source_start for link in found] == [0, 2]


def test_blanks_belong_to_no_word():
    assert words_of([(0, 1), (1, 2), (2, 3)], "a b", word_spans("a b")) == [0, None, 1]


@pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS], ids=["bpe", "characters"])
@given(text=TEXTS)
def test_spans_of_what_was_written_cover_it_in_order(tokenizer, text):
    ids = tokenizer.encode(text)
    spans = written_spans(ids, tokenizer, text)
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    assert {place for start, end in spans for place in range(start, end)} == set(range(len(text)))
    assert all(start < end for start, end in spans)
