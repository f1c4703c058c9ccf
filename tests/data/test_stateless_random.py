"""Random numbers that depend only on their arguments."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline.data.datasets.stateless_random import permutation, random_bits, uniform

ONE_TWO_THREE = 17824878756907967
NUMBERS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4)


@given(NUMBERS)
def test_same_numbers_give_the_same_bits(numbers):
    assert random_bits(*numbers) == random_bits(*numbers)


@given(NUMBERS, st.integers(0, 3), st.integers(0, 63))
def test_every_bit_that_differs_changes_the_result(numbers, at, bit):
    other = [number ^ (1 << bit) if i == at % len(numbers) else number for i, number in enumerate(numbers)]
    assert random_bits(*numbers) != random_bits(*other)


def test_arrays_are_broadcast():
    assert random_bits(3, np.arange(5), 4).tolist() == [random_bits(3, i, 4).item() for i in range(5)]


def test_bits_never_change():
    """Every later version must draw the same numbers when it resumes a checkpoint."""
    assert random_bits(1, 2, 3).item() == ONE_TWO_THREE


def test_uniform_is_uniform():
    drawn = uniform(5, np.arange(100_000))
    assert 0 <= drawn.min() < drawn.max() < 1
    assert np.abs(np.histogram(drawn, bins=10, range=(0, 1))[0] / 10_000 - 1).max() < 0.05


@given(st.integers(0, 100), st.integers(0, 2**64 - 1))
def test_permutation_has_every_number_once(n, seed):
    assert sorted(permutation(n, seed)) == list(range(n))
