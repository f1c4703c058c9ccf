"""Learning rates are what their formulas say."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.training.schedule import constant, cosine, inverse_square_root, learning_rate, linear, noam
from sightline.training.settings import TrainingSettings

END = 1000
PEAK = 0.01
SHAPES = {
    "noam": lambda warmup: partial(noam, d_model=512, warmup=warmup),
    "inverse_square_root": lambda warmup: partial(inverse_square_root, peak=PEAK, warmup=warmup),
    "cosine": lambda warmup: partial(cosine, peak=PEAK, warmup=warmup, end=END),
    "linear": lambda warmup: partial(linear, peak=PEAK, warmup=warmup, end=END),
    "constant": lambda warmup: partial(constant, peak=PEAK, warmup=warmup),
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)
FALLING = pytest.mark.parametrize("fall", [cosine, linear])


@given(step=st.integers(1, 10**7), d_model=st.integers(1, 4096), warmup=st.integers(1, 10**5))
def test_noam_is_the_papers_formula_to_the_digit(step, d_model, warmup):
    assert noam(step, d_model=d_model, warmup=warmup) == d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def test_noam_has_the_known_peak_of_the_base_model():
    assert math.isclose(noam(4000, d_model=512, warmup=4000), 1 / math.sqrt(512 * 4000))


@EVERY_SHAPE
@given(warmup=st.integers(1, END - 1), step=st.integers(1, 3 * END))
def test_schedule_is_never_negative_nor_above_its_peak(shape, warmup, step):
    rate = SHAPES[shape](warmup)
    assert 0 <= rate(step) <= rate(warmup) * (1 + 1e-12)


@EVERY_SHAPE
@given(warmup=st.integers(2, END - 1))
def test_schedule_rises_in_a_line_to_the_end_of_the_warmup(shape, warmup):
    rate = SHAPES[shape](warmup)
    for step in {1, warmup // 2 or 1, warmup}:
        assert math.isclose(rate(step), rate(warmup) * step / warmup)


@EVERY_SHAPE
@given(warmup=st.integers(2, END - 1))
def test_schedule_has_no_jump_at_the_end_of_the_warmup(shape, warmup):
    """The step after the peak is at most as far below it as falling to zero over what is left would take it."""
    rate = SHAPES[shape](warmup)
    steepest = max(math.pi / 2 / (END - warmup), 1 / warmup)
    assert abs(rate(warmup + 1) - rate(warmup)) <= rate(warmup) * steepest * (1 + 1e-9)


@EVERY_SHAPE
@given(warmup=st.integers(1, END - 1), step=st.integers(1, 2 * END))
def test_schedule_never_rises_after_the_warmup(shape, warmup, step):
    rate = SHAPES[shape](warmup)
    assert rate(warmup + step + 1) <= rate(warmup + step) * (1 + 1e-12)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "noam"])
def test_schedule_without_warmup_begins_at_its_peak_or_just_below(shape):
    assert math.isclose(SHAPES[shape](0)(1), PEAK, rel_tol=2 / END)


@given(d_model=st.integers(1, 4096), warmup=st.integers(1, 10**5), step=st.integers(1, 10**6))
def test_inverse_square_root_has_the_papers_shape(d_model, warmup, step):
    peak = noam(warmup, d_model=d_model, warmup=warmup)
    assert math.isclose(inverse_square_root(step, peak=peak, warmup=warmup), noam(step, d_model=d_model, warmup=warmup))


@FALLING
@given(warmup=st.integers(0, END - 1), floor=st.floats(0, 1), beyond=st.integers(0, END))
def test_falling_schedule_ends_at_its_floor_and_stays_there(fall, warmup, floor, beyond):
    found = fall(END + beyond, peak=PEAK, warmup=warmup, end=END, floor=floor)
    assert math.isclose(found, PEAK * floor, abs_tol=1e-15)


@FALLING
def test_falling_schedule_is_half_way_in_the_middle(fall):
    assert math.isclose(fall(600, peak=PEAK, warmup=200, end=END), PEAK / 2)


@EVERY_SHAPE
def test_learning_rate_follows_the_chosen_schedule(shape):
    chosen = {} if shape == "noam" else {"learning_rate": PEAK, "max_steps": END}
    settings = TrainingSettings(schedule=shape, warmup_steps=10, **chosen)
    for step in (1, 10, 500):
        assert learning_rate(settings, step, d_model=512) == SHAPES[shape](10)(step)
