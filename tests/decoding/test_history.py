import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, search_beams

from .toy import END, START, Toy

CASES = [
    DecodingSettings(beam_size=3, n_best=3, max_new_tokens=6),
    DecodingSettings(beam_size=10, n_best=4, max_new_tokens=4, length_penalty=1.5),
    DecodingSettings(beam_size=4, n_best=2, max_new_tokens=7, forced_words=((2, 3), (4,))),
    DecodingSettings(beam_size=3, n_best=3, max_new_tokens=6, stop=("3",)),
    DecodingSettings(beam_size=1, max_new_tokens=6, repetition_penalty=1.5),
]


def search_with_history(seed, settings):
    toy = Toy(6, seed=seed)
    request = Request([[START]] * 2, settings, [END], to_text=str, max_new_tokens=[settings.max_new_tokens, 4])
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
