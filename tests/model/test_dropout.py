"""Dropout from raw bits: the right distribution, in every lane, reproducible."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.model.dropout import Dropout, keep_factors

MANY = 1 << 18


def bound(probability, n):
    """Five standard deviations of the rate of n independent draws."""
    return 5 * math.sqrt(probability * (1 - probability) / n)


def apply_dropout(dropout, x, *, seed=7):
    torch.manual_seed(seed)
    return dropout(x)


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_keep_factors_drop_at_the_given_rate(probability):
    """The knob must mean what it says."""
    rate = (keep_factors(torch.empty(MANY), probability) == 0).float().mean().item()
    assert abs(rate - probability) < bound(probability, MANY)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("lane", range(4))
def test_keep_factors_drop_at_the_given_rate_in_every_lane(probability, lane):
    """One draw serves four elements; a sign bit left at zero would bias each fourth."""
    rate = (keep_factors(torch.empty(MANY), probability)[lane::4] == 0).float().mean().item()
    assert abs(rate - probability) < bound(probability, MANY // 4)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)])
def test_keep_factors_of_lanes_are_independent(one, other):
    """Neighbors dropped together would be a different regularizer."""
    zero = keep_factors(torch.empty(MANY), 0.5).view(-1, 4) == 0
    together = (zero[:, one] & zero[:, other]).float().mean().item()
    assert abs(together - 0.25) < bound(0.25, MANY // 4)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_keep_factors_have_mean_one(probability):
    """What is kept is scaled up, so that evaluation needs no scaling."""
    mean = keep_factors(torch.empty(MANY), probability).mean().item()
    assert abs(mean - 1) < bound(probability, MANY) / (1 - probability)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_keep_factors_are_zero_or_one_constant(probability):
    """Nothing between dropped and kept, to the resolution of sixteen bits."""
    kept = keep_factors(torch.empty(1000), probability)
    kept = kept[kept != 0]
    assert (kept == kept[0]).all()
    assert_close(kept[0].item(), 1 / (1 - probability), rtol=1e-3, atol=0.0)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_keep_factors_have_the_shape_of_their_input(shape):
    """Also where the number of elements is no multiple of four, or zero."""
    assert keep_factors(torch.empty(*shape), 0.5).shape == tuple(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keep_factors_have_the_dtype_of_their_input(dtype):
    """A half-precision value must not become a float by being dropped."""
    assert keep_factors(torch.empty(5, dtype=dtype), 0.5).dtype == dtype


def test_dropout_repeats_itself_after_seeding():
    """A run can be repeated."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    assert torch.equal(apply_dropout(dropout, x), apply_dropout(dropout, x))


def test_dropout_differs_from_call_to_call():
    """One mask for ever would be a smaller model."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    assert not torch.equal(dropout(x), dropout(x))


def test_dropout_repeats_itself_from_a_restored_generator_state():
    """A resumed training run continues as if it had not stopped."""
    dropout, x = Dropout(0.5), torch.randn(50, 8)
    dropout(x)
    state = torch.get_rng_state()
    first = dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)


def test_dropout_passes_gradients_through_the_same_mask():
    """Forward and backward must forget the same elements."""
    x = torch.randn(50, 8, requires_grad=True)
    out = Dropout(0.5)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert_close(gradient * x, out)


def test_dropout_add_passes_gradients_through_the_same_mask():
    """The residual gets its gradient whole, the dropped branch by its mask."""
    residual, x = torch.randn(2, 50, 8, requires_grad=True).unbind()
    out = Dropout(0.5).add(residual, x)
    to_residual, to_x = torch.autograd.grad(out.sum(), (residual, x))
    assert torch.equal(to_residual, torch.ones_like(to_residual))
    assert_close(residual + to_x * x, out)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_add_is_residual_plus_forward(training):
    """One pass over memory instead of two, and the same numbers."""
    dropout = Dropout(0.3).train(training)
    residual, x = torch.randn(2, 50, 8)
    expected = residual + apply_dropout(dropout, x, seed=7)
    torch.manual_seed(7)
    assert_close(dropout.add(residual, x), expected)


def test_dropout_in_evaluation_is_the_identity():
    """Results do not depend on chance."""
    x = torch.randn(50, 8)
    assert Dropout(0.5).eval()(x) is x


def test_dropout_of_probability_zero_draws_nothing():
    """A model without dropout leaves the generator alone."""
    state = torch.get_rng_state()
    Dropout(0.0)(torch.randn(0, 8))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("probability", "training", "active"), [(0.1, True, True), (0.1, False, False), (0.0, True, False)]
)
def test_dropout_is_active_in_training_only(probability, training, active):
    """Attention asks this before it leaves the fused kernel."""
    assert Dropout(probability).train(training).active is active
