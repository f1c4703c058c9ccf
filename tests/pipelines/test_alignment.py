"""Word links by attention: spans of whole words, inside their texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings
from sightline.pipelines import pipeline_for
from sightline.pipelines.pipeline import find_token_spans
from sightline.tracing.tokenized_text import word_spans

from .tiny import BPE, CHARACTERS, many_languages_bundle, precise, translator_bundle, two_vocabularies_bundle

MAKERS = [translator_bundle, two_vocabularies_bundle, many_languages_bundle]
TEXTS = st.text(st.sampled_from("the cat 漢字👩\u200d👧 \n\tü.é"), max_size=14)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
@settings(max_examples=5)
def test_links_join_whole_words_inside_their_texts(make, texts):
    translator = pipeline_for(make())
    to = "de" if translator.languages else None
    decoding = DecodingSettings(beam_size=2, n_best=2, max_new_tokens=8, min_new_tokens=4)
    for text, found in zip(
        texts, translator.translations(texts, to=to, alignment=True, settings=decoding), strict=True
    ):
        for translation in found:
            for link in translation.alignment:
                assert (link.source_start, link.source_end) in word_spans(text)
                assert (link.target_start, link.target_end) in word_spans(translation.text)
                assert 0 < link.weight <= 1.00001


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_alignment_of_a_batch_equals_one_by_one(make):
    translator = pipeline_for(precise(make()))
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


@pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS], ids=["bpe", "characters"])
@given(text=TEXTS)
def test_spans_of_generated_text_cover_it_in_order(tokenizer, text):
    ids = tokenizer.encode(text)
    spans = find_token_spans(ids, tokenizer, text)
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    assert {place for start, end in spans for place in range(start, end)} == set(range(len(text)))
    assert all(start < end for start, end in spans)
