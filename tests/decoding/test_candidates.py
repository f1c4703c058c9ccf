"""Searches whose settings allow it need only the best candidates of each step, and find the same as with all logits."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sightline.decoding import (
    ContinuousBatch,
    DecodingSettings,
    Request,
    StepNeeds,
    StepOutput,
    TokenCandidates,
    search,
    search_beams,
    search_for,
)
from sightline.errors import InputError, SightlineError

from .toy import END, START, Toy, contains_any

ALLOWED = (
    DecodingSettings(max_new_tokens=7),
    DecodingSettings(max_new_tokens=6, stop=("3 4", "5")),
    DecodingSettings(max_new_tokens=7, beam_size=3, n_best=2),
    DecodingSettings(max_new_tokens=7, beam_size=9, n_best=9),
    DecodingSettings(max_new_tokens=6, beam_size=2, coverage_penalty=0.4),
)
NEED_LOGITS = (
    DecodingSettings(do_sample=True, seed=1),
    DecodingSettings(do_sample=True, seed=1, top_k=1),
    DecodingSettings(min_new_tokens=2),
    DecodingSettings(repetition_penalty=1.3),
    DecodingSettings(bad_words=((3,),)),
    DecodingSettings(beam_size=2, no_repeat_ngram_size=2),
    DecodingSettings(beam_size=2, forced_words=((3,),)),
)


class CandidatesOnly(Toy):
    """A toy that never gives logits: an engine that holds them elsewhere."""

    def __call__(self, newest, state, needs):
        output = super().__call__(newest, state, needs)
        assert needs.candidates is not None
        return dataclasses.replace(output, logits=None, candidates=TokenCandidates.of(output.logits, needs.candidates))


def make_request(sources, settings):
    is_complete = contains_any(settings.stop, lambda ids: " ".join(map(str, ids))) if settings.stop else None
    return Request([[START]] * len(sources), settings, [END], is_complete=is_complete)


@examples(deadline=None)
@given(
    settings=st.sampled_from(ALLOWED),
    sources=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    seed=st.integers(0, 20),
    grain=st.sampled_from([0.0, 1.0]),
)
def test_candidates_give_what_logits_give(settings, sources, seed, grain):
    kind = {"seed": seed, "grain": grain, "sources": 4}
    expected, found = (
        search(toy, toy.start(sources), make_request(sources, settings))
        for toy in (Toy(**kind), CandidatesOnly(**kind))
    )
    assert found == expected


def test_history_of_a_beam_is_the_same():
    request = make_request([0, 1], ALLOWED[2])
    expected, found = (
        search_beams(toy, toy.start([0, 1]), request, keep_history=True) for toy in (Toy(), CandidatesOnly())
    )
    assert found == expected


@pytest.mark.parametrize("settings", NEED_LOGITS)
def test_rules_and_samples_need_all_logits(settings):
    assert search_for(make_request([0], settings)).needs.candidates is None


def test_searches_in_one_batch_get_what_serves_all():
    """The widest of them decides; one that needs logits gets them for all."""
    toy, asked = CandidatesOnly(sources=4), []

    def step(newest, state, needs):
        asked.append(needs)
        return toy(newest, state, needs) if needs.candidates else Toy.__call__(toy, newest, state, needs)

    batch, searches = ContinuousBatch(step), [search_for(make_request([i], s)) for i, s in enumerate(ALLOWED)]
    batch.add(searches[:3], toy.start([0, 1, 2]))
    batch.advance()
    batch.add(searches[3:], toy.start([3, 4]))
    batch.advance()
    sampled = search_for(make_request([5], NEED_LOGITS[0]))
    batch.add([sampled], toy.start([5]))
    batch.advance()
    assert asked == [StepNeeds(4), StepNeeds(10, attention=True), StepNeeds(None, attention=True)]
    batch.remove([sampled])
    while batch.n_rows:
        batch.advance()
    for source, (one, settings) in enumerate(zip(searches, ALLOWED, strict=True)):
        plain = Toy(sources=4)
        assert one.hypotheses == search(plain, plain.start([source]), make_request([source], settings))


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_candidates_that_are_not_numbers_are_reported(beam_size, value):
    def step(newest, state, needs):
        logits = torch.zeros(len(newest), 6)
        logits[-1] = value
        return StepOutput(None, state, candidates=TokenCandidates.of(logits, needs.candidates))

    with pytest.raises(SightlineError, match=r"logits for sentence 2 are not numbers .* after 0 tokens"):
        search(step, Toy().start([0, 1]), make_request([0, 1], DecodingSettings(beam_size=beam_size)))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_end_token_outside_the_vocabulary_is_refused(beam_size):
    toy = CandidatesOnly()
    with pytest.raises(InputError, match="outside the vocabulary of 6 tokens: end_ids: 9"):
        search(toy, toy.start([0]), Request([[START]], DecodingSettings(beam_size=beam_size), end_ids=[9]))


def test_candidates_are_ordered_by_probability_then_by_id():
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    assert TokenCandidates.of(logits, 3).ids.tolist() == [[1, 2, 3], [0, 1, 2]]
    assert TokenCandidates.of(logits, 1).ids.tolist() == [[1], [0]]
    every = TokenCandidates.of(logits, 9)
    assert every.log_probabilities.exp().sum(dim=1).tolist() == pytest.approx([1, 1])
