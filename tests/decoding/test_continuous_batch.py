"""Searches in a continuous batch get the same results as alone, whatever joins or leaves."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sightline.decoding import ContinuousBatch, DecodingSettings, Request, StepOutput, search, search_for
from sightline.errors import InputError
from sightline.model import GPTConfig, TransformerConfig
from sightline.model.registry import build

from .toy import END, START, Toy

SETTINGS = (
    DecodingSettings(max_new_tokens=7),
    DecodingSettings(max_new_tokens=5, min_new_tokens=2),
    DecodingSettings(max_new_tokens=7, beam_size=3, n_best=2),
    DecodingSettings(max_new_tokens=6, beam_size=2, coverage_penalty=0.4),
    DecodingSettings(max_new_tokens=6, do_sample=True, seed=5, n_best=3, top_k=3),
    DecodingSettings(max_new_tokens=6, repetition_penalty=1.4),
)


def make_request(sources: list[int], settings: DecodingSettings) -> Request:
    return Request([[START]] * len(sources), settings, [END])


@examples(deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.integers(0, 3), min_size=1, max_size=2), st.sampled_from(SETTINGS)),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 5),
)
def test_search_added_at_any_step_equals_search_alone(arrivals, seed):
    toy = Toy(seed=seed, sources=4)
    batch = ContinuousBatch(toy)
    searches = [search_for(make_request(sources, settings)) for _, sources, settings in arrivals]
    done = set()
    for step_number in range(40):
        for (time, sources, _), one in zip(arrivals, searches, strict=True):
            if time == step_number:
                batch.add([one], toy.start(sources))
        done |= {id(update.search) for update in batch.advance() if update.is_done}
    assert done == {id(one) for one in searches}
    assert batch.n_rows == 0
    for (_, sources, settings), one in zip(arrivals, searches, strict=True):
        assert one.hypotheses == search(toy, toy.start(sources), make_request(sources, settings))


def test_removed_searches_do_not_affect_the_others():
    toy = Toy(seed=1, sources=4)
    batch = ContinuousBatch(toy)
    searches = [search_for(make_request([source], SETTINGS[source])) for source in range(4)]
    batch.add(searches, toy.start([0, 1, 2, 3]))
    batch.advance()
    batch.remove([searches[0], searches[2]])
    while batch.n_rows:
        batch.advance()
    for source in (1, 3):
        assert searches[source].hypotheses == search(toy, toy.start([source]), make_request([source], SETTINGS[source]))
    batch.remove(searches)  # removing again does nothing


def test_failed_search_ends_alone():
    toy = Toy()
    bad = search_for(Request([[START]], DecodingSettings(bad_words=tuple((i,) for i in range(6))), [END]))
    good = search_for(make_request([1], SETTINGS[0]))
    batch = ContinuousBatch(toy)
    batch.add([bad, good], toy.start([0, 1]))
    first, second = batch.advance()
    assert isinstance(first.error, InputError)
    assert first.is_done
    assert second.error is None
    while batch.n_rows:
        batch.advance()
    assert good.hypotheses == search(toy, toy.start([1]), make_request([1], SETTINGS[0]))


def test_empty_batch_has_no_step():
    assert ContinuousBatch(Toy()).advance() == []


def make_model(family: str):
    """A model in double precision, whose words are never so nearly alike that rounding could decide between them."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0}
    if family == "gpt":
        return build(GPTConfig(**sizes, n_layers=2)).double().eval()
    return build(TransformerConfig(**sizes, n_encoder_layers=2, n_decoder_layers=2)).double().eval()


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_model_states_join_and_leave(family):
    """Sources, contexts and beams of different sizes share one cache at different times, each with its own result."""
    model = make_model(family)
    rng = random.Random(3)  # noqa: S311

    def step(ids, state, needs):
        return StepOutput(*model.step(ids[:, None], state))

    def start(ids):
        row = torch.tensor([ids])
        if family == "transformer":
            return model.start(model.encode(row), capacity=2)
        cache = model.start(1, capacity=len(ids))
        return model.step(row[:, :-1], cache)[1] if len(ids) > 1 else cache

    jobs = []
    for _ in range(12):
        ids = [rng.randrange(3, 30) for _ in range(rng.randint(1, 9))]
        settings = rng.choice([one for one in SETTINGS if not one.coverage_penalty])
        context = [ids] if family == "gpt" else [[1]]
        jobs.append((ids, Request(context, settings, [0]), rng.randint(0, 8)))
    searches = [search_for(request) for _, request, _ in jobs]
    with torch.inference_mode():
        batch = ContinuousBatch(step)
        for step_number in range(30):
            new = [(one, ids) for one, (ids, _, time) in zip(searches, jobs, strict=True) if time == step_number]
            for one, ids in new:
                batch.add([one], start(ids))
            batch.advance()
        for one, (ids, request, _) in zip(searches, jobs, strict=True):
            alone = search(step, start(ids), request)
            assert [h.ids for h in one.hypotheses[0]] == [h.ids for h in alone[0]]
            for mine, other in zip(one.hypotheses[0], alone[0], strict=True):
                assert mine.log_probability == pytest.approx(other.log_probability, abs=1e-5)
