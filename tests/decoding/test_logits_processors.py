"""Each rule forbids what it should and nothing else."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import logits_processors
from sightline.decoding.settings import contains

V = 7
FORBIDDEN = -math.inf


@st.composite
def scores(draw, count=None):
    """Log-probabilities, often equal, sometimes forbidden, never all forbidden."""
    value = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, FORBIDDEN]) | st.floats(-5, 5, width=32)
    row = st.lists(value, min_size=V, max_size=V).filter(lambda values: max(values) > FORBIDDEN)
    count = count or draw(st.integers(1, 4))
    return torch.tensor(draw(st.lists(row, min_size=count, max_size=count))).log_softmax(dim=1)


@st.composite
def scores_and_history(draw):
    values = draw(scores())
    length = draw(st.integers(0, 9))
    rows = []
    for _ in values:
        padding = draw(st.integers(0, max(0, length - 1)))
        rows.append([-1] * padding + [draw(st.integers(0, V - 1)) for _ in range(length - padding)])
    return values, torch.tensor(rows, dtype=torch.long).view(len(values), length)


def kept(filtered, row):
    return {token for token, score in enumerate(filtered[row].tolist()) if score > FORBIDDEN}


def ranked(values, row):
    """The tokens that are possible at all, best first, lowest id first in a tie."""
    possible = [token for token in range(V) if values[row, token] > FORBIDDEN]
    return sorted(possible, key=lambda token: (-values[row, token].item(), token))


@given(scores(), st.integers(1, V + 2))
def test_best_tokens_are_ordered_by_score_then_id(values, count):
    best, tokens = logits_processors.best_tokens(values, count)
    assert tokens.size(1) == min(count, V)
    for row in range(len(values)):
        found = [t for t, s in zip(tokens[row].tolist(), best[row].tolist(), strict=True) if s > FORBIDDEN]
        assert found == ranked(values, row)[:count]


@given(scores(), st.floats(0.05, 0.999))
def test_top_p_keeps_the_fewest_tokens_that_reach_the_mass(values, mass):
    filtered = logits_processors.keep_top_p(values, mass)
    for row in range(len(values)):
        order = ranked(values, row)
        sums = [values[row, order[: n + 1]].double().exp().sum().item() for n in range(len(order))]
        if any(abs(total - mass) < 1e-6 for total in sums):
            continue  # too close for fp32 to say
        needed = next(n for n, total in enumerate(sums, start=1) if total >= mass)
        assert kept(filtered, row) == set(order[:needed])


def test_top_p_takes_more_candidates_when_the_first_are_not_enough(monkeypatch):
    values = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).log_softmax(dim=1)
    whole = logits_processors.keep_top_p(values, 0.9)
    monkeypatch.setattr(logits_processors, "TOP_P_CANDIDATES", (2, 5))
    assert torch.equal(logits_processors.keep_top_p(values, 0.9), whole)


@given(scores(), st.floats(0, 1))
def test_min_p_keeps_tokens_above_the_threshold(values, fraction):
    filtered = logits_processors.keep_min_p(values, fraction)
    for row in range(len(values)):
        probabilities = values[row].double().exp()
        threshold = fraction * probabilities.max()
        sure = {t for t in range(V) if probabilities[t] > threshold + 1e-6}
        possible = {t for t in range(V) if probabilities[t] >= threshold - 1e-6}
        assert sure <= kept(filtered, row) <= possible
        assert int(probabilities.argmax()) in kept(filtered, row)


@given(scores(), st.sampled_from(["keep_top_p", "keep_min_p"]))
def test_kept_scores_are_unchanged(values, name):
    filtered = getattr(logits_processors, name)(values, 0.4)
    assert torch.equal(torch.where(filtered > FORBIDDEN, filtered, values), values)


@given(scores_and_history(), st.floats(1.1, 3))
def test_repetition_penalty_lowers_earlier_tokens_and_no_others(case, penalty):
    values, history = case
    filtered = logits_processors.penalize_repetition(values + 3, history, penalty)
    for row, seen in enumerate(history.tolist()):
        for token in range(V):
            before, after = (values + 3)[row, token].item(), filtered[row, token].item()
            if token not in seen:
                assert after == before
            else:
                assert after == pytest.approx(before / penalty if before > 0 else before * penalty, rel=1e-5)


@given(scores_and_history(), st.integers(1, 4))
def test_repeated_ngrams_are_exactly_what_is_forbidden(case, size):
    values, history = case
    filtered = logits_processors.forbid_repeated_ngrams(values, history, size)
    for row, padded in enumerate(history.tolist()):
        seen = [token for token in padded if token >= 0]
        repeats = {
            token
            for token in range(V)
            if len(seen) >= size - 1 and contains(seen, [*seen, token][len(seen) + 1 - size :])
        }
        assert kept(filtered, row) == set(ranked(values, row)) - repeats


@given(scores_and_history(), st.integers(1, 3), st.data())
def test_last_tokens_of_bad_words_are_exactly_what_is_forbidden(case, size, data):
    values, history = case
    sequence = st.lists(st.integers(0, V - 1), min_size=size, max_size=size)
    bad_words = data.draw(st.lists(sequence, min_size=1, max_size=4))
    filtered = logits_processors.forbid_sequences(values, history, torch.tensor(bad_words))
    for row, seen in enumerate(history.tolist()):
        completing = {
            ids[-1] for ids in bad_words if len(seen) >= size - 1 and seen[len(seen) + 1 - size :] == ids[:-1]
        }
        assert kept(filtered, row) == set(ranked(values, row)) - completing


@given(scores(count=2), st.sets(st.integers(0, V - 1)))
def test_tokens_are_forbidden_only_where_asked(values, tokens):
    filtered = logits_processors.forbid_tokens(
        values, torch.tensor(sorted(tokens), dtype=torch.long), torch.tensor([True, False])
    )
    assert kept(filtered, 0) == set(ranked(values, 0)) - tokens
    assert torch.equal(filtered[1], values[1])


@given(scores(count=2), st.integers(0, V - 1))
def test_forced_tokens_are_the_only_ones_allowed_with_their_own_score(values, token):
    all_forbidden = torch.full_like(values, FORBIDDEN)
    filtered = logits_processors.force_tokens(all_forbidden, values, torch.tensor([token, -1]))
    assert filtered[0, token] == values[0, token]
    assert kept(filtered, 0) <= {token}
    assert kept(filtered, 1) == set()


@given(scores_and_history())
def test_processors_do_not_change_their_input(case):
    values, history = case
    before = values.clone()
    logits_processors.best_tokens(values, 2)
    logits_processors.keep_top_p(values, 0.5)
    logits_processors.keep_min_p(values, 0.5)
    logits_processors.penalize_repetition(values, history, 2.0)
    logits_processors.forbid_repeated_ngrams(values, history, 1)
    logits_processors.forbid_sequences(values, history, torch.tensor([[1]]))
    logits_processors.forbid_tokens(values, torch.tensor([1]), torch.ones(len(values), dtype=torch.bool))
    logits_processors.force_tokens(values, values, torch.ones(len(values), dtype=torch.long))
    assert torch.equal(values, before)
