"""Greedy search and sampling, row by row: what is chosen, when a text ends, and what the seeds decide."""

import dataclasses
import inspect
import math
import random
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, search, stream
from sightline.decoding.sequential import Sampler, filter_logits
from sightline.errors import InputError, SettingsError, SightlineError

from .toy import END, START, Toy, contains_any


def greedy(toy, sources, settings, **more):
    return [
        r[0]
        for r in search(toy, toy.start(sources), Request([[START]] * len(sources), settings, end_ids=[END], **more))
    ]


def texts_by_hand(toy, source, limit):
    ids = []
    while len(ids) < limit and END not in ids:
        ids.append(int(toy.logits_after((source, START, *ids)).argmax()))
    return tuple(ids)


def test_greedy_takes_the_likeliest_token_until_the_end():
    toy = Toy()
    results = greedy(toy, range(12), DecodingSettings(max_new_tokens=5))
    assert [r.ids for r in results] == [texts_by_hand(toy, source, 5) for source in range(12)]
    assert {r.finish_reason for r in results} == {"eos", "length"}
    for result in results:
        assert (result.finish_reason == "eos") == (result.ids[-1] == END)
        assert result.content == tuple(i for i in result.ids if i != END)


def test_finished_rows_are_dropped_from_the_batch():
    toy = Toy()
    results = greedy(toy, range(12), DecodingSettings(max_new_tokens=9))
    lengths = [len(r.ids) for r in results]
    assert toy.rows_of_calls == [sum(length > i for length in lengths) for i in range(max(lengths))]


def test_ties_go_to_the_lowest_id():
    toy = Toy(5)
    toy.logits_after = lambda row: torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0])
    assert greedy(toy, [0], DecodingSettings(max_new_tokens=3))[0].ids == (2, 2, 2)
    assert greedy(toy, [0], DecodingSettings(max_new_tokens=3, beam_size=2))[0].ids == (2, 2, 2)


def test_no_sentences_give_no_results():
    for settings in (DecodingSettings(), DecodingSettings(beam_size=2), DecodingSettings(do_sample=True, n_best=2)):
        assert search(Toy(), Toy().start([]), Request([], settings, end_ids=[END])) == []


def test_prefixes_are_forced_and_counted():
    toy = Toy()
    results = greedy(toy, [0, 1], DecodingSettings(max_new_tokens=3, bad_words=((5,),)), prefixes=[[2, 3, 4], [4]])
    assert results[0].ids == (2, 3, 4)
    assert results[0].finish_reason == "length"
    assert results[1].ids[0] == 4
    assert results[0].token_log_probabilities[0] == toy.logits_after((0, START)).log_softmax(0)[2].item()


def test_context_is_fed_from_its_last_id():
    toy = Toy()
    contexts = [[START, 4, 2], [3]]
    search(toy, toy.start([0, 1], contexts), Request(contexts, DecodingSettings(max_new_tokens=1), end_ids=[END]))
    assert toy.states[0].rows == ((0, START, 4, 2), (1, 3))


@pytest.mark.parametrize("beam", [1, 3])
def test_no_repeat_ngram_size_includes_the_prompt_only_if_set(beam):
    toy = Toy(6)
    contexts = [[2, 3, 4, 5]]
    settings = DecodingSettings(no_repeat_ngram_size=1, max_new_tokens=2, min_new_tokens=2, beam_size=beam)
    alone = search(toy, toy.start([0], contexts), Request(contexts, settings, end_ids=[END]))[0][0]
    including = dataclasses.replace(settings, include_prompt=True, max_new_tokens=1, min_new_tokens=1)
    after = search(toy, toy.start([0], contexts), Request(contexts, including, end_ids=[END]))[0][0]
    assert set(alone.ids) & {2, 3, 4, 5}
    assert after.ids == (1,)


@pytest.mark.parametrize("beam", [1, 3])
def test_repetition_penalty_includes_the_prompt_only_if_set(beam):
    toy = Toy(4)
    toy.logits_after = lambda row: torch.tensor([-9.0, 0.0, 1.0, 1.5])
    settings = DecodingSettings(repetition_penalty=2.0, max_new_tokens=1, beam_size=beam)
    firsts = [
        search(
            toy,
            toy.start([0], [[3]]),
            Request([[3]], dataclasses.replace(settings, include_prompt=include), end_ids=[END]),
        )[0][0].ids
        for include in (False, True)
    ]
    assert firsts == [(3,), (2,)]


@pytest.mark.parametrize("beam", [1, 3])
def test_stop_string_ends_the_text_with_the_token_that_completes_it(beam):
    toy = Toy(4)
    toy.logits_after = lambda row: torch.eye(4)[[0, 2, 3, 1][row[-1]]] * 9
    settings = DecodingSettings(stop=("bca", "zz"), max_new_tokens=9, beam_size=beam)
    result = greedy(
        toy, [0], settings, is_complete=contains_any(settings.stop, lambda ids: "".join("xabc"[i] for i in ids))
    )[0]
    assert result.ids == (2, 3, 1)
    assert result.finish_reason == "stop"
    assert len(result.token_log_probabilities) == 3


def test_stream_yields_every_step_and_the_texts():
    toy = Toy()
    request = Request([[START]] * 4, DecodingSettings(max_new_tokens=5), [END])
    results = list(stream(toy, toy.start(range(4)), request))
    streamed = {row: [] for row in range(4)}
    finished = {}
    for result in results:
        for row, token in zip(result.rows, result.tokens, strict=True):
            streamed[row].append(token)
        finished |= result.finished
    assert [finished[row] for row in range(4)] == greedy(toy, range(4), request.settings)
    assert {row: tuple(ids) for row, ids in streamed.items()} == {row: text.ids for row, text in finished.items()}


def test_stream_drops_rows_sent_to_it():
    toy = Toy()
    request = Request([[START]] * 3, DecodingSettings(max_new_tokens=4, min_new_tokens=4), [END])
    results = stream(toy, toy.start([0, 1, 2]), request)
    assert next(results).rows == [0, 1, 2]
    assert results.send({1}).rows == [0, 2]
    assert results.send({0, 2, 99}.difference({2})).rows == [2]
    rest = list(results)
    assert rest[-1].finished[2] == greedy(toy, [2], request.settings)[0]


def test_stream_does_nothing_before_the_first_token_is_requested():
    toy = Toy()
    results = stream(toy, toy.start([0]), Request([[START]], DecodingSettings(do_sample=True), [END]))
    assert inspect.isgenerator(results)
    assert toy.rows_of_calls == []


def test_stream_of_a_beam_is_refused():
    with pytest.raises(SettingsError, match=r"beam search cannot stream.*: set beam_size = 1, not 4"):
        stream(Toy(), Toy().start([0]), Request([[START]], DecodingSettings(beam_size=4), [END]))


@pytest.mark.parametrize(
    ("value", "reason"), [(math.nan, "not numbers"), (math.inf, "not numbers"), (-math.inf, "all −∞")]
)
@pytest.mark.parametrize(
    "settings", [DecodingSettings(), DecodingSettings(beam_size=2), DecodingSettings(do_sample=True)]
)
def test_non_finite_logits_are_refused(value, reason, settings):
    toy = Toy(4)
    toy.logits_after = lambda row: torch.full((4,), value) if row[0] == 1 else torch.zeros(4)
    with pytest.raises(SightlineError, match=rf"logits for sentence 2 are {reason}"):
        greedy(toy, [0, 1], settings)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_non_finite_logit_is_enough(value):
    toy = Toy(4)
    toy.logits_after = lambda row: torch.tensor([0.0, 0.0, 0.0, value])
    with pytest.raises(SightlineError, match="not numbers"):
        greedy(toy, [0], DecodingSettings())


def test_impossible_tokens_are_never_chosen():
    toy = Toy(4)
    toy.logits_after = lambda row: torch.tensor([-math.inf, 0.0, -math.inf, 0.0])
    settings = DecodingSettings(do_sample=True, n_best=50, max_new_tokens=4)
    assert {
        i for result in search(toy, toy.start([0]), Request([[1]], settings, end_ids=[0]))[0] for i in result.ids
    } == {1, 3}


@pytest.mark.parametrize(
    "settings", [DecodingSettings(), DecodingSettings(beam_size=3), DecodingSettings(do_sample=True)]
)
def test_settings_that_allow_no_token_are_refused(settings):
    settings = dataclasses.replace(settings, no_repeat_ngram_size=1, min_new_tokens=5)
    with pytest.raises(InputError, match=r"sentence 1: no token is allowed after 3 tokens; loosen"):
        greedy(Toy(4), [0], settings)


def test_half_precision_logits_are_accepted():
    toy = Toy(4)
    exact = toy.logits_after
    toy.logits_after = lambda row: exact(row).to(torch.bfloat16)
    result = greedy(toy, [0], DecodingSettings(max_new_tokens=3))[0]
    row = (0, START)
    assert result.token_log_probabilities[0] == exact(row).to(torch.bfloat16).float().log_softmax(0).max().item()


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
    monkeypatch.setattr("sightline.decoding.sequential.random", play)
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
