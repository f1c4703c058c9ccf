"""Stateless random numbers: a hash of the given numbers, as in a counter-based generator.

A draw for (seed, epoch, example) is the same after a resume, on any rank, in any order, with any version of numpy. The
hash is SplitMix64 (Steele et al. 2014).
"""

import numpy as np
from numpy.typing import NDArray

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def random_bits(*numbers: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return 64 random bits for the numbers; arrays are broadcast together."""
    state = np.zeros(1, dtype=np.uint64)
    with np.errstate(over="ignore"):  # the hash relies on wrap-around
        for number in numbers:
            whole = number % (1 << 64) if isinstance(number, int) else number
            state = mix((state + STEP) ^ mix(np.atleast_1d(np.asarray(whole)).astype(np.uint64) + STEP))
    return state


def uniform(*numbers: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Return a uniform random number in [0, 1) for the numbers."""
    return (random_bits(*numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(n: int, *numbers: int) -> NDArray[np.int64]:
    """Return a random permutation of the numbers below `n`."""
    return np.argsort(random_bits(*numbers, np.arange(n)), kind="stable")


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits (the SplitMix64 finalizer)."""
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))
