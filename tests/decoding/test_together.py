"""Searches that share their steps get what each would have got alone, whoever comes and goes."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, StepOutput, Together, search, search_for
from sightline.errors import InputError
from sightline.model import GPTConfig, TransformerConfig
from sightline.model.registry import build

from .toy import END, START, Toy

WAYS = (
    DecodingSettings(max_length=7),
    DecodingSettings(max_length=5, min_length=2),
    DecodingSettings(max_length=7, beam=3, n_best=2),
    DecodingSettings(max_length=6, beam=2, coverage_penalty=0.4),
    DecodingSettings(max_length=6, sample=True, seed=5, n_best=3, top_k=3),
    DecodingSettings(max_length=6, repetition_penalty=1.4),
)


def asked(sources: list[int], settings: DecodingSettings) -> Request:
    return Request([[START]] * len(sources), settings, [END])


@examples(deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.integers(0, 3), min_size=1, max_size=2), st.sampled_from(WAYS)),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 5),
)
def test_joined_at_any_step_is_the_same_as_alone(arrivals, seed):
    toy = Toy(seed=seed, sources=4)
    together = Together(toy)
    searches = [search_for(asked(sources, settings)) for _, sources, settings in arrivals]
    done = set()
    for tick in range(40):
        for (time, sources, _), one in zip(arrivals, searches, strict=True):
            if time == tick:
                together.join([one], toy.start(sources))
        done |= {id(advance.search) for advance in together.advance() if advance.is_done}
    assert done == {id(one) for one in searches}
    assert together.n_rows == 0
    for (_, sources, settings), one in zip(arrivals, searches, strict=True):
        assert one.hypotheses == search(toy, toy.start(sources), asked(sources, settings))


def test_who_leaves_takes_nobody_with_it():
    toy = Toy(seed=1, sources=4)
    together = Together(toy)
    searches = [search_for(asked([source], WAYS[source])) for source in range(4)]
    together.join(searches, toy.start([0, 1, 2, 3]))
    together.advance()
    together.leave([searches[0], searches[2]])
    while together.n_rows:
        together.advance()
    for source in (1, 3):
        assert searches[source].hypotheses == search(toy, toy.start([source]), asked([source], WAYS[source]))
    together.leave(searches)  # who is gone may go again


def test_one_that_cannot_go_on_ends_alone():
    toy = Toy()
    bad = search_for(Request([[START]], DecodingSettings(banned=tuple((i,) for i in range(6))), [END]))
    good = search_for(asked([1], WAYS[0]))
    together = Together(toy)
    together.join([bad, good], toy.start([0, 1]))
    first, second = together.advance()
    assert isinstance(first.error, InputError)
    assert first.is_done
    assert second.error is None
    while together.n_rows:
        together.advance()
    assert good.hypotheses == search(toy, toy.start([1]), asked([1], WAYS[0]))


def test_nobody_has_no_step():
    assert Together(Toy()).advance() == []


def model_of(family: str):
    """A model in double precision, whose words are never so nearly alike that rounding could decide between them."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0}
    if family == "gpt":
        return build(GPTConfig(**sizes, n_layers=2)).double().eval()
    return build(TransformerConfig(**sizes, n_encoder_layers=2, n_decoder_layers=2)).double().eval()


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_a_models_own_states_join_and_leave(family):
    """Sources, contexts and beams of different sizes share one cache, at different times, and do not notice."""
    model = model_of(family)
    chance = random.Random(3)  # noqa: S311

    def step(ids, state):
        return StepOutput(*model.step(ids[:, None], state))

    def start(ids):
        row = torch.tensor([ids])
        if family == "transformer":
            return model.start(model.encode(row), capacity=2)
        cache = model.start(1, capacity=len(ids))
        return model.step(row[:, :-1], cache)[1] if len(ids) > 1 else cache

    jobs = []
    for _ in range(12):
        ids = [chance.randrange(3, 30) for _ in range(chance.randint(1, 9))]
        settings = chance.choice([way for way in WAYS if not way.coverage_penalty])
        context = [ids] if family == "gpt" else [[1]]
        jobs.append((ids, Request(context, settings, [0]), chance.randint(0, 8)))
    searches = [search_for(request) for _, request, _ in jobs]
    with torch.inference_mode():
        together = Together(step)
        for tick in range(30):
            new = [(one, ids) for one, (ids, _, time) in zip(searches, jobs, strict=True) if time == tick]
            for one, ids in new:
                together.join([one], start(ids))
            together.advance()
        for one, (ids, request, _) in zip(searches, jobs, strict=True):
            alone = search(step, start(ids), request)
            assert [h.ids for h in one.hypotheses[0]] == [h.ids for h in alone[0]]
            for mine, other in zip(one.hypotheses[0], alone[0], strict=True):
                assert mine.log_probability == pytest.approx(other.log_probability, abs=1e-5)
