"""Masked words: batched or alone, the same candidates, filled in at their place."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.pipelines import Filler
from sightline.pipelines.filler import Gap
from sightline.tasks import pipeline_for

from .tiny import MASKING, MASKING_CHARACTERS, filler_bundle, precise

TEXTS = ["the [MASK] sat", "[MASK]", "a [MASK] ran to the [MASK] on [MASK]", "où est [MASK]", "[MASK][MASK] x"]


@pytest.fixture(scope="module", params=[MASKING, MASKING_CHARACTERS], ids=["bpe", "characters"])
def filler(request) -> Filler:
    return pipeline_for(precise(filler_bundle(request.param)))


def shown(fillings):
    return [[(one.text, one.token) for one in filling.candidates] for filling in fillings]


@pytest.mark.parametrize("batch_tokens", [20, 4096])
def test_batch_equals_one_by_one(filler, batch_tokens):
    together = filler.fillings(TEXTS, n=3, batch_tokens=batch_tokens)
    alone = [filler.fill(text, n=3) for text in TEXTS]
    assert [shown(one) for one in together] == [shown(one) for one in alone]
    ours, theirs = (
        [one.probability for text in found for filling in text for one in filling.candidates]
        for found in (together, alone)
    )
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_every_mask_gets_its_candidates_in_order(filler):
    for text, fillings in zip(TEXTS, filler.fillings(TEXTS, n=4), strict=True):
        assert len(fillings) == text.count("[MASK]")
        for filling in fillings:
            probabilities = [candidate.probability for candidate in filling.candidates]
            assert probabilities == sorted(probabilities, reverse=True)
            assert len(probabilities) == 4
            assert all(candidate.text.count("[MASK]") == text.count("[MASK]") - 1 for candidate in filling.candidates)


def test_probabilities_are_those_of_the_model(filler):
    [filling] = filler.fill("the [MASK] sat", n=filler.tokenizer.vocab_size)
    row = filler.encode_text("the [MASK] sat")
    with torch.inference_mode():
        hidden = filler.model.eval()(torch.tensor([row]))[0, row.index(filler.mask_id)]
        expected = filler.model.mlm(hidden[None]).softmax(dim=1)[0]
    ordinary = [i for i in range(filler.tokenizer.vocab_size) if i not in filler.tokenizer.special_ids]
    assert len(filling.candidates) == len(ordinary)
    assert filling.candidates[0].probability == pytest.approx(float(expected[ordinary].max()), abs=1e-6)


def test_masked_text_is_what_training_would_mask():
    """ "the cat sat" with its second token masked: the space belongs to the masked word."""
    filler = pipeline_for(filler_bundle())
    ids = MASKING.encode("the cat sat")
    words = [MASKING.token_text(id_) for id_ in ids]
    assert " cat" in words
    ids[words.index(" cat")] = MASKING.mask_id
    assert filler.encode_text("the [MASK] sat") == [MASKING.cls_id, *ids, MASKING.sep_id]
    assert filler.build_candidate(Gap("the", " sat"), MASKING.encode(" cat")[0], 0.5).text == "the cat sat"


def test_space_stays_where_it_is_a_token():
    filler = pipeline_for(filler_bundle(MASKING_CHARACTERS))
    space = MASKING_CHARACTERS.encode(" ")
    assert filler.encode_text("a [MASK]")[2:3] == space


def test_word_at_the_beginning_has_no_space():
    filler = pipeline_for(filler_bundle())
    assert filler.build_candidate(Gap("", " sat"), MASKING.encode(" cat")[0], 0.5).text == "cat sat"


@pytest.mark.parametrize("name", ["[CLS]", "[SEP]", "<pad>"])
def test_other_names_of_special_tokens_are_text(filler, name):
    row = filler.encode_text(f"{name} [MASK]")
    assert [id_ for id_ in row if id_ in filler.tokenizer.special_ids] == [
        filler.tokenizer.cls_id,
        filler.mask_id,
        filler.tokenizer.sep_id,
    ]


@given(text=st.text(st.characters(codec="utf-8"), max_size=4))
@settings(max_examples=10)
def test_any_text_around_a_mask_stays(text):
    filler = pipeline_for(filler_bundle())
    for candidate in filler.fill(f"{text}. [MASK]{text}", n=2)[0].candidates:
        assert candidate.text.startswith(f"{text}.")
        assert candidate.text.endswith(text)


def test_text_without_a_mask_is_refused(filler):
    with pytest.raises(InputError, match=r"text 2 has no mask: put \[MASK\] where a word is missing"):
        filler.fillings(["a [MASK]", "a dog"])


def test_text_that_is_too_long_is_refused_with_both_numbers(filler):
    with pytest.raises(InputError, match="has 63 tokens, more than the 48"):
        filler.fill("z" * 60 + "[MASK]")


def test_lone_surrogate_is_refused(filler):
    with pytest.raises(InputError, match="is a lone surrogate"):
        filler.fill("[MASK] \ud83d")
