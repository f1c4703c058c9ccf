import dataclasses
import random
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, search
from sightline.decoding.sampling import Sampler, filter_logits

from .toy import END, START, Toy

DRAWS = 4_000


def sample(toy, sources, settings, **more):
    return search(toy, toy.start(sources), Request([[START]] * len(sources), settings, end_ids=[END], **more))


def first_tokens(settings):
    """Sample one token many times from the same distribution."""
    settings = dataclasses.replace(settings, do_sample=True, n_best=1, max_new_tokens=1)
    request = Request([[START]] * DRAWS, settings, [END], seeds=range(DRAWS))
    log_probs = Toy(6, seed=5).logits_after((0, START)).log_softmax(0)
    tokens = Sampler(request)(log_probs.expand(DRAWS, -1), list(range(DRAWS)))
    return log_probs, Counter(tokens.tolist())


def probabilities(log_probs, settings):
    """Return the probability with which each token of a row is drawn."""
    scores, tokens = filter_logits(log_probs, settings)
    tokens = torch.arange(log_probs.size(1))[None] if tokens is None else tokens
    return torch.zeros(log_probs.size(1), dtype=torch.float64).scatter(0, tokens[0], scores[0].double().softmax(0))


@pytest.mark.parametrize(
    "settings",
    [
        DecodingSettings(),
        DecodingSettings(temperature=0.5),
        DecodingSettings(temperature=2.0),
        DecodingSettings(top_k=3),
        DecodingSettings(top_p=0.8),
        DecodingSettings(min_p=0.3),
        DecodingSettings(temperature=1.5, top_k=5, top_p=0.9, min_p=0.1),
    ],
    ids=str,
)
def test_drawn_tokens_have_the_expected_frequencies(settings):
    log_probs, counts = first_tokens(settings)
    expected = probabilities(log_probs[None], settings) * DRAWS
    assert all(expected[token] > 0 for token in counts)
    chi_square = sum((counts[i] - e) ** 2 / e for i, e in enumerate(expected.tolist()) if e)
    assert chi_square < 20.5  # five degrees of freedom pass this once in a thousand seeds


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=1, max_size=9), st.integers(1, 10))
def test_top_k_keeps_exactly_the_k_best_and_the_lowest_ids_in_a_tie(logits, count):
    kept = probabilities(torch.tensor([logits]).log_softmax(1), DecodingSettings(top_k=count)) > 0
    best = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:count]
    assert kept.nonzero()[:, 0].tolist() == sorted(best)


def test_temperature_comes_before_top_p():
    """At a low temperature the likeliest token alone has the mass."""
    log_probs = torch.tensor([[0.4, 0.35, 0.25]]).log()
    high, low = (probabilities(log_probs, DecodingSettings(top_p=0.7, temperature=t)) > 0 for t in (1.0, 0.1))
    assert high.tolist() == [True, True, False]
    assert low.tolist() == [True, False, False]


def test_top_p_applies_to_the_tokens_top_k_left():
    log_probs = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    both = probabilities(log_probs, DecodingSettings(top_k=2, top_p=0.55))  # 0.4 of 0.7 is more than 0.55
    assert (both > 0).tolist() == [True, False, False, False]


@given(st.integers(0, 2**63 - 1))
def test_same_seed_gives_same_texts(seed):
    settings = DecodingSettings(do_sample=True, seed=seed, n_best=2, max_new_tokens=6)
    assert sample(Toy(), [0, 1], settings) == sample(Toy(), [0, 1], settings)


def test_other_seeds_give_other_texts():
    texts = {
        sample(Toy(), [0], DecodingSettings(do_sample=True, seed=seed, min_new_tokens=8, max_new_tokens=8))[0][0].ids
        for seed in [*range(20), 2**32, 2**33, 2**62]
    }
    assert len(texts) > 15


def test_without_a_seed_texts_differ(monkeypatch):
    """Each row has a source of chance that the system has seeded (here another does, so that chance is the same)."""
    seeds = []
    play = SimpleNamespace(Random=lambda seed: seeds.append(seed) or random.Random(len(seeds)))  # noqa: S311
    monkeypatch.setattr("sightline.decoding.sampling.random", play)
    results = sample(Toy(), [0] * 20, DecodingSettings(do_sample=True, min_new_tokens=8, max_new_tokens=8))
    assert seeds == [None] * 20
    assert len({result[0].ids for result in results}) > 15


def test_per_sentence_seed_makes_results_independent_of_the_batch_order():
    settings = DecodingSettings(do_sample=True, max_new_tokens=8)
    together = sample(Toy(), [0, 1], settings, seeds=[11, 22])
    assert together[::-1] == sample(Toy(), [1, 0], settings, seeds=[22, 11])
    assert together[1] == sample(Toy(), [1], dataclasses.replace(settings, seed=22))[0]


def test_samples_of_one_sentence_differ_and_the_first_stays_when_more_are_drawn():
    one, many = (
        sample(Toy(), [0, 1], DecodingSettings(do_sample=True, seed=3, n_best=n, min_new_tokens=8, max_new_tokens=8))
        for n in (1, 10)
    )
    assert [len(results) for results in many] == [10, 10]
    assert len({result.ids for result in many[0]}) > 5
    assert [results[0] for results in many] == [results[0] for results in one]


def test_low_temperature_is_greedy():
    greedy = sample(Toy(), [0, 1], DecodingSettings(max_new_tokens=6))
    assert sample(Toy(), [0, 1], DecodingSettings(do_sample=True, seed=1, temperature=0.01, max_new_tokens=6)) == greedy


def test_top_k_of_one_is_greedy_even_in_a_tie():
    toy = Toy(grain=2.0)
    assert sample(toy, [0, 1], DecodingSettings(do_sample=True, top_k=1, max_new_tokens=6)) == sample(
        toy, [0, 1], DecodingSettings(max_new_tokens=6)
    )


def test_log_probabilities_are_the_models_own_at_every_temperature():
    toy = Toy()
    result = sample(toy, [0], DecodingSettings(do_sample=True, seed=1, temperature=3.0, top_k=4, max_new_tokens=6))[0][
        0
    ]
    rows = [(0, START, *result.ids[:i]) for i in range(len(result.ids))]
    own = [toy.logits_after(row).log_softmax(0)[i].item() for row, i in zip(rows, result.ids, strict=True)]
    assert result.token_log_probabilities == pytest.approx(own)
    assert result.log_probability == pytest.approx(sum(own))
