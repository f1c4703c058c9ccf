"""Masks as booleans, and their additive form."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.model.masks import Mask, cached_mask, causal_mask, padding_mask

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(LENGTHS)
def test_padding_mask_allows_just_the_first_tokens(lengths):
    """True means may attend, everywhere in the package."""
    mask = padding_mask(torch.tensor(lengths), 6)
    assert mask[:, 0, 0].tolist() == [[position < length for position in range(6)] for length in lengths]


@given(st.integers(1, 8))
def test_causal_mask_allows_the_past_and_the_position_itself(length):
    """Position i sees 0 … i (3.2.3)."""
    assert causal_mask(length)[0, 0].tolist() == [[key <= query for key in range(length)] for query in range(length)]


@given(LENGTHS, st.integers(1, 3))
def test_cached_mask_shifts_each_row_by_what_it_has(lengths, n_new):
    """Rows of different lengths continue together, each attending to its own past only."""
    n_keys = max(lengths) + n_new
    mask = cached_mask(torch.tensor(lengths), n_new, n_keys)
    assert mask[:, 0].tolist() == [
        [[key <= first + new for key in range(n_keys)] for new in range(n_new)] for first in lengths
    ]


def test_cached_mask_of_an_empty_cache_is_the_causal_mask():
    """The first chunk is an ordinary sequence."""
    assert torch.equal(cached_mask(torch.zeros(1, dtype=torch.long), 5, 5), causal_mask(5))


@given(st.integers(0, 1000))
def test_mask_is_zero_where_allowed_and_minus_infinity_elsewhere(seed):
    """Additive, and infinite rather than large: −1e9 is not nothing (spec 1.4)."""
    allowed = torch.rand(2, 1, 3, 4, generator=torch.Generator().manual_seed(seed)) < 0.5
    assert torch.equal(Mask.of(allowed).additive, torch.where(allowed, 0.0, -math.inf))


@given(st.integers(0, 1000))
def test_masks_compose_by_and_as_they_do_by_addition(seed):
    """Hiding twice hides the union, whichever form is combined (spec 1.4)."""
    one, other = (torch.rand(2, 1, 3, 4, generator=torch.Generator().manual_seed(seed + i)) < 0.5 for i in range(2))
    assert torch.equal(Mask.of(one & other).additive, Mask.of(one).additive + Mask.of(other).additive)


def test_causal_mask_is_flagged_and_in_additive_form():
    """The kernel uses the flag, the explicit path the numbers: they must agree."""
    mask = Mask.causal(4)
    assert mask.is_causal
    assert torch.equal(mask.additive, Mask.of(causal_mask(4)).additive)


def test_mask_of_booleans_is_not_flagged_as_causal():
    """A wrong flag would make the kernel ignore padding."""
    assert not Mask.of(causal_mask(4)).is_causal


def test_mask_has_the_asked_dtype():
    """A half-precision model adds a half-precision mask."""
    assert Mask.causal(3, dtype=torch.bfloat16).additive.dtype == torch.bfloat16
