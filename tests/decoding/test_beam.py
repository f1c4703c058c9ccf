"""A beam finds the best texts there are, stops without changing any result, and can tell how it found them."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, beam, search, search_beams
from sightline.decoding.beam import allocate_beam
from sightline.decoding.interfaces import run_search
from sightline.decoding.sequential import SequentialSearch, greedy_tokens
from sightline.decoding.settings import contains
from sightline.errors import SettingsError

from .toy import END, START, Toy, best_texts, contains_any, score_of

WIDE = 100  # more than all texts of four tokens over a vocabulary of four


def run(toy, sources, settings, **more):
    contexts = [[START]] * len(sources)
    return search(toy, toy.start(sources), Request(contexts, settings, end_ids=more.pop("end_ids", [END]), **more))


def ids_of(hypotheses):
    return [hypothesis.ids for hypothesis in hypotheses]


def assert_best(results, best, toy, source, settings):
    """Let the results be the best texts; of two that are alike but for rounding either may come first."""
    ours, theirs = ([score_of(toy, source, ids, settings) for ids in texts] for texts in (ids_of(results), best))
    assert len(set(ids_of(results))) == len(results)
    assert ours == pytest.approx(theirs, rel=0, abs=1e-4)


@given(seed=st.integers(0, 999), alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0, 2.0]))
def test_wide_beam_finds_the_best_of_all_texts(seed, alpha):
    toy = Toy(4, seed=seed)
    settings = DecodingSettings(beam_size=WIDE, n_best=5, length_penalty=alpha, max_new_tokens=4)
    results = run(toy, [7], settings)[0]
    assert_best(results, best_texts(toy, 7, settings, count=5), toy, 7, settings)
    for result in results:
        assert result.score == pytest.approx(score_of(toy, 7, result.ids, settings))


@given(seed=st.integers(0, 999), beta=st.sampled_from([0.1, 0.5, 3.0]), sources=st.lists(st.integers(0, 9), max_size=2))
def test_wide_beam_with_coverage_finds_the_best_of_all_texts(seed, beta, sources):
    """The sources differ in length, so this also says that padding costs nothing."""
    toy = Toy(4, seed=seed, sources=3)
    settings = DecodingSettings(beam_size=WIDE, n_best=3, coverage_penalty=beta, max_new_tokens=4)
    results = run(toy, sources, settings, source_mask=toy.source_mask(sources) if sources else None)
    for source, found_texts in zip(sources, results, strict=True):
        assert_best(found_texts, best_texts(toy, source, settings, count=3), toy, source, settings)


@given(seed=st.integers(0, 999))
def test_wide_beam_with_constraints_finds_the_best_of_the_texts_that_satisfy_them(seed):
    toy = Toy(4, seed=seed)
    settings = DecodingSettings(
        beam_size=WIDE,
        n_best=4,
        max_new_tokens=4,
        min_new_tokens=2,
        bad_words=((1, 1), (3, 2, 1)),
        forced_words=((1, 2), (3,)),
    )

    def satisfies(ids):
        return (
            len(ids) > settings.min_new_tokens
            and not any(contains(ids, bad) for bad in settings.bad_words)
            and all(contains(ids, forced) for forced in settings.forced_words)
        )

    results = run(toy, [0], settings)[0]
    assert all(satisfies(ids) for ids in ids_of(results))
    assert_best(results, best_texts(toy, 0, settings, count=4, allowed=satisfies), toy, 0, settings)


@given(seed=st.integers(0, 999))
def test_wide_beam_with_two_end_tokens_finds_the_best_of_all_texts(seed):
    toy = Toy(4, seed=seed)
    settings = DecodingSettings(beam_size=WIDE, n_best=4, max_new_tokens=4)
    results = run(toy, [0], settings, end_ids=[0, 3])[0]
    assert_best(results, best_texts(toy, 0, settings, count=4, end_ids=[0, 3]), toy, 0, settings)


@examples(max_examples=60)
@given(
    seed=st.integers(0, 999),
    beam_size=st.integers(2, 6),
    data=st.data(),
    alpha=st.floats(0, 4),
    beta=st.sampled_from([0.0, 0.4]),
    limit=st.integers(3, 12),
    sharpness=st.sampled_from([1.0, 8.0]),
    forced_words=st.sampled_from([(), ((2,),), ((2, 3), (4,))]),
    penalty=st.sampled_from([1.0, 1.5]),
    grain=st.sampled_from([0.0, 0.5]),
)
def test_early_stopping_changes_nothing(
    seed, beam_size, data, alpha, beta, limit, sharpness, forced_words, penalty, grain
):
    toy = Toy(6, seed=seed, sharpness=sharpness, sources=3, grain=grain)
    settings = DecodingSettings(
        beam_size=beam_size,
        n_best=data.draw(st.integers(1, beam_size)),
        length_penalty=alpha,
        coverage_penalty=beta,
        max_new_tokens=limit,
        forced_words=forced_words,
        repetition_penalty=penalty,
    )
    request = Request([[START]] * 2, settings, [END], source_mask=toy.source_mask([1, 2]))
    early = search_beams(toy, toy.start([1, 2]), request)
    calls = len(toy.rows_of_calls)
    late = search_beams(toy, toy.start([1, 2]), request, stop_early=False)
    assert early == late
    assert calls <= settings.max_new_tokens


def test_early_stopping_waits_for_a_long_text_that_can_still_win():
    """Ending at once has 0.6; the rest surely continues, and under a length penalty wins only when it is long."""
    toy = Toy(3)
    toy.logits_after = lambda row: torch.tensor([0.6, 0.0, 0.4] if len(row) == 2 else [0.0, 0.0, 1.0]).log()
    result = run(toy, [0], DecodingSettings(beam_size=2, length_penalty=2.0, max_new_tokens=20))[0][0]
    assert result.ids == (2,) * 20


def test_early_stopping_saves_steps():
    toy = Toy(4, sharpness=4)
    run(toy, [0], DecodingSettings(beam_size=3, max_new_tokens=200))
    assert len(toy.rows_of_calls) < 50


@given(
    seed=st.integers(0, 999),
    alpha=st.floats(0, 2),
    grain=st.sampled_from([0.0, 1.0]),
    settings=st.sampled_from(
        [
            DecodingSettings(max_new_tokens=8),
            DecodingSettings(max_new_tokens=8, min_new_tokens=4, bad_words=((2,), (3, 4))),
            DecodingSettings(max_new_tokens=8, forced_words=((4, 4, 3), (2,))),
            DecodingSettings(max_new_tokens=8, repetition_penalty=1.7, no_repeat_ngram_size=2),
            DecodingSettings(max_new_tokens=8, stop=("2 3", "5")),
        ]
    ),
)
def test_beam_of_one_is_greedy(seed, alpha, grain, settings):
    toy = Toy(6, seed=seed, grain=grain)
    settings = dataclasses.replace(settings, length_penalty=alpha)
    prefixes = [[3], [], [4, 5]]
    request = Request(
        [[START]] * 3,
        settings,
        [END],
        prefixes=prefixes if not settings.stop else None,
        is_complete=contains_any(settings.stop, join_ids),
    )
    beams = search_beams(toy, toy.start([0, 1, 2]), request).hypotheses
    assert beams == run_search(SequentialSearch(request, greedy_tokens), toy, toy.start([0, 1, 2]))


def join_ids(ids):
    return " ".join(map(str, ids))


def test_rows_of_one_sentence_stay_together():
    toy = Toy(6)
    run(toy, [4, 5], DecodingSettings(beam_size=3, max_new_tokens=6, min_new_tokens=6))
    assert toy.rows_of_calls == [2, 6, 6, 6, 6, 6]
    for state in toy.states[1:]:
        assert [row[0] for row in state.rows] == [4, 4, 4, 5, 5, 5]


def test_decided_sentences_are_dropped_from_the_batch():
    toy = Toy(6)
    run(toy, [4, 5], DecodingSettings(beam_size=3, max_new_tokens=6, min_new_tokens=6), max_new_tokens=[2, 4])
    assert toy.rows_of_calls == [2, 6, 3, 3]


def test_ends_do_not_starve_the_beam():
    """Two end tokens that are always the likeliest must not leave the beam without texts to continue."""
    table = torch.tensor([5.0, 5.0, 1.0, 0.5])

    def step(newest, state, needs):
        output = toy(newest, state, needs)
        return dataclasses.replace(output, logits=table.expand(len(newest), -1))

    toy = Toy(4)
    settings = DecodingSettings(beam_size=2, max_new_tokens=5)
    search_beams(step, toy.start([0]), Request([[1]], settings, [0, 1]), stop_early=False)
    assert [len(set(state.rows)) for state in toy.states] == [1, 2, 2, 2, 2]


def test_truncated_texts_compete_and_say_so():
    toy = Toy(4)
    results = run(toy, [0], DecodingSettings(beam_size=4, n_best=4, max_new_tokens=3, min_new_tokens=3))[0]
    assert len(results) == 4
    for result in results:
        assert result.finish_reason == "length"
        assert len(result.ids) == 3
        assert END not in result.ids


def test_results_are_sorted_and_different():
    results = run(Toy(6, seed=3), [0], DecodingSettings(beam_size=8, n_best=8, max_new_tokens=6))[0]
    assert len(set(ids_of(results))) == 8
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)


def test_log_probabilities_are_the_models_own_under_all_processors():
    toy = Toy(6, seed=1, sources=2)
    settings = DecodingSettings(
        beam_size=3,
        n_best=3,
        max_new_tokens=6,
        min_new_tokens=2,
        repetition_penalty=2.0,
        no_repeat_ngram_size=2,
        forced_words=((3,),),
    )
    for result in run(toy, [0], settings, prefixes=[[2]])[0]:
        rows = [(0, START, *result.ids[:i]) for i in range(len(result.ids))]
        own = [toy.logits_after(row).log_softmax(0)[i].item() for row, i in zip(rows, result.ids, strict=True)]
        assert result.token_log_probabilities == pytest.approx(own)
        assert result.log_probability == pytest.approx(math.fsum(own))


@given(seed=st.integers(0, 999), beam_size=st.integers(1, 8), room=st.integers(0, 5))
def test_forced_words_always_appear(seed, beam_size, room):
    forced_words = ((2, 3, 2), (5,), (3, 4), (2, 3))
    settings = DecodingSettings(
        beam_size=beam_size,
        max_new_tokens=6 + room,
        forced_words=forced_words,
        no_repeat_ngram_size=2,
        length_penalty=1.0,
        n_best=beam_size,
    )
    for result in run(Toy(6, seed=seed), [0, 1], settings)[0]:
        assert all(contains(result.ids, sequence) for sequence in forced_words)


def test_dynamic_beam_allocation_finds_better_positions_for_forced_words(monkeypatch):
    """Without it the beam is full of hypotheses that postpone them until the length limit forces them."""

    def total():
        settings = DecodingSettings(beam_size=8, max_new_tokens=12, forced_words=((2, 3), (5,)), length_penalty=0.0)
        return sum(run(Toy(8, seed=seed, sharpness=2), [0], settings)[0][0].score for seed in range(8))

    allocated = total()
    monkeypatch.setattr(beam, "allocate_beam", lambda banks: list(range(len(banks))))
    assert allocated > total() + 4


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_beam_slots_are_shared_as_evenly_as_the_banks_allow(banks, count):
    order = allocate_beam(banks)
    assert sorted(order) == list(range(len(banks)))
    assert order[0] == 0
    slots = {bank: sum(banks[rank] == bank for rank in order[:count]) for bank in set(banks)}
    waiting = [bank for bank in slots if slots[bank] < banks.count(bank)]
    for bank in waiting:
        assert slots[bank] >= max(slots.values()) - 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_bank_places_its_best_first(banks):
    order = allocate_beam(banks)
    for bank in set(banks):
        ranks = [rank for rank in order if banks[rank] == bank]
        assert ranks == sorted(ranks)


def test_coverage_without_attention_is_refused():
    with pytest.raises(SettingsError, match="coverage_penalty needs a model with attention to the source"):
        run(Toy(4), [0], DecodingSettings(beam_size=2, coverage_penalty=0.2))


def test_coverage_with_a_beam_of_one_still_counts():
    toy = Toy(5, sources=3)
    settings = DecodingSettings(coverage_penalty=0.5, max_new_tokens=4)
    result = run(toy, [2], settings, source_mask=toy.source_mask([2]))[0][0]
    assert result.score == pytest.approx(score_of(toy, 2, result.ids, settings))


def test_source_position_without_attention_costs_a_finite_amount():
    toy = Toy(5, sources=3)
    settings = DecodingSettings(beam_size=2, coverage_penalty=0.5, max_new_tokens=4)
    result = run(toy, [0], settings)[0][0]  # without a mask the padding counts as words
    assert math.isfinite(result.score)
    assert result.score < -50


CASES = [
    DecodingSettings(beam_size=3, n_best=3, max_new_tokens=6),
    DecodingSettings(beam_size=10, n_best=4, max_new_tokens=4, length_penalty=1.5),
    DecodingSettings(beam_size=4, n_best=2, max_new_tokens=7, forced_words=((2, 3), (4,))),
    DecodingSettings(beam_size=3, n_best=3, max_new_tokens=6, stop=("3",)),
    DecodingSettings(beam_size=1, max_new_tokens=6, repetition_penalty=1.5),
]


def search_with_history(seed, settings):
    toy = Toy(6, seed=seed)
    request = Request(
        [[START]] * 2,
        settings,
        [END],
        is_complete=contains_any(settings.stop, str),
        max_new_tokens=[settings.max_new_tokens, 4],
    )
    return search_beams(toy, toy.start([0, 1]), request, keep_history=True)


@given(seed=st.integers(0, 999), settings=st.sampled_from(CASES))
def test_every_result_traces_back_to_the_root(seed, settings):
    result = search_with_history(seed, settings)
    for hypotheses, history in zip(result.hypotheses, result.histories, strict=True):
        assert len(history.endings) == len(hypotheses)
        for hypothesis, ending in zip(hypotheses, history.endings, strict=True):
            path = history.path(*ending)
            assert tuple(node.token for node in path) == hypothesis.ids
            assert tuple(node.token_log_probability for node in path) == hypothesis.token_log_probabilities
            assert path[-1].log_probability == pytest.approx(hypothesis.log_probability)
            assert path[-1].score == hypothesis.score
            assert [node.fate for node in path] == ["alive"] * (len(path) - 1) + ["finished"]


@given(seed=st.integers(0, 999), settings=st.sampled_from(CASES))
def test_every_node_continues_a_live_one(seed, settings):
    for history in search_with_history(seed, settings).histories:
        assert all(node.parent is None for node in history.steps[0])
        for before, step in itertools.pairwise(history.steps):
            assert all(before[node.parent].fate == "alive" for node in step)


@given(seed=st.integers(0, 999), settings=st.sampled_from(CASES))
def test_a_step_shows_at_most_a_full_beam_alive_and_nothing_impossible(seed, settings):
    for history in search_with_history(seed, settings).histories:
        for step in history.steps:
            assert all(math.isfinite(node.score) and math.isfinite(node.log_probability) for node in step)
            assert sum(node.fate == "alive" for node in step) <= settings.beam_size


def test_pruned_candidates_are_shown():
    fates = {node.fate for step in search_with_history(0, CASES[0]).histories[0].steps for node in step}
    assert fates == {"alive", "finished", "pruned"}


def test_keeping_history_changes_no_result_and_is_off_by_default():
    toy = Toy(6)
    request = Request([[START]], CASES[0], [END])
    plain = search_beams(toy, toy.start([0]), request)
    kept = search_beams(toy, toy.start([0]), request, keep_history=True)
    assert plain.histories == []
    assert plain.hypotheses == kept.hypotheses
