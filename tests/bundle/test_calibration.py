"""Confidence: how often a score like this was right on the validation set."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.bundle.calibration import MAX_BINS, MIN_BIN, MIN_EXAMPLES, Bin, Calibration, make_monotone
from sightline.decoding.settings import DecodingSettings
from sightline.errors import SettingsError

GREEDY = DecodingSettings()
EXAMPLES = st.lists(
    st.tuples(st.floats(-5, 0).map(lambda score: round(score, 1)), st.booleans()), min_size=MIN_EXAMPLES, max_size=400
)


def fit(examples, decoding=GREEDY) -> Calibration | None:
    scores, right = zip(*examples, strict=True)
    return Calibration.fit(scores, right, criterion="exact", decoding=decoding)


def draw(n: int, seed: int) -> list[tuple[float, bool]]:
    """Scores of which the probability to be right is 1 + score."""
    chance = random.Random(seed)  # noqa: S311
    scores = [chance.uniform(-1, 0) for _ in range(n)]
    return [(score, chance.random() < 1 + score) for score in scores]


@given(EXAMPLES)
def test_a_higher_score_never_means_a_lower_confidence(examples):
    found = [fit(examples).confidence_of(score) for score, _ in sorted(examples)]
    assert [one.share for one in found] == sorted(one.share for one in found)


def test_a_few_right_ones_above_many_do_not_lower_the_confidence():
    """The middle of the interval is lower for fewer texts."""
    bins = make_monotone([Bin(-3.0, 100, 50), Bin(-2.0, 600, 599), Bin(-1.0, 30, 30)])
    assert bins == [Bin(-3.0, 100, 50), Bin(-2.0, 630, 629)]


@given(EXAMPLES)
def test_bins_hold_all_examples_and_not_too_few_each(examples):
    bins = fit(examples).bins
    assert sum(one.count for one in bins) == len(examples)
    assert sum(one.right for one in bins) == sum(right for _, right in examples)
    assert min(one.count for one in bins) >= MIN_BIN


def test_confidence_is_the_share_that_was_right_among_unseen_texts():
    """Predicted and observed agree within what chance allows for bins of so many texts."""
    calibration, unseen = fit(draw(5_000, seed=1)), draw(5_000, seed=2)
    for number, one in enumerate(calibration.bins):
        high = calibration.bins[number + 1].low if number + 1 < len(calibration.bins) else 1.0
        inside = [right for score, right in unseen if one.low <= score < high]
        assert abs(sum(inside) / len(inside) - calibration.confidence_of(one.low).share) < 0.12


def test_the_interval_holds_the_share_and_narrows_with_more_texts():
    few, many = (fit([(-1.0, i % 2 == 0) for i in range(n)]).confidence_of(-0.5) for n in (100, 10_000))
    assert few.low < 0.5 < few.high
    assert many.high - many.low < few.high - few.low
    assert (few.count, many.count) == (100, 10_000)


def test_all_right_is_not_certainty():
    assert 0.9 < fit([(-1.0, True)] * 100).confidence_of(-1.0).share < 1


def test_few_texts_and_samples_give_no_calibration():
    assert fit(draw(MIN_EXAMPLES - 1, seed=1)) is None
    assert fit(draw(500, seed=1), DecodingSettings(do_sample=True)) is None


def test_a_score_below_all_that_were_seen_has_no_confidence():
    assert fit(draw(500, seed=1)).confidence_of(-2.0) is None


@pytest.mark.parametrize(
    ("change", "applies"),
    [
        ({}, True),
        ({"n_best": 2}, True),
        ({"max_new_tokens": 7, "seed": 3}, True),
        ({"beam_size": 3}, False),
        ({"length_penalty": 0.0}, False),
        ({"beam_size": 1, "do_sample": True}, False),
        ({"bad_words": ((1,),)}, False),
    ],
)
def test_only_the_measured_decoding_has_a_confidence(change, applies):
    measured = DecodingSettings(beam_size=2)
    assert fit(draw(500, seed=1), measured).applies_to(replace(measured, **change)) is applies


@pytest.mark.parametrize(
    ("bins", "reason"),
    [
        ((), "1 to 20 bins"),
        (tuple(Bin(float(i), 1, 1) for i in range(MAX_BINS + 1)), "1 to 20 bins"),
        ((Bin(-1.0, 5, 5), Bin(-2.0, 5, 5)), "must ascend"),
        ((Bin(-1.0, 5, 6),), "more right texts than texts"),
    ],
)
def test_damaged_bins_are_refused(bins, reason):
    with pytest.raises(SettingsError, match=reason):
        Calibration("exact", GREEDY, bins)
