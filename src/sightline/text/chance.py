"""Random numbers without a state: 64 bits that depend on the numbers given and on nothing else.

Whatever is drawn for (seed, epoch, example) is drawn again after a resume, on any rank, in any order, by any version
of numpy. The mixing is SplitMix64 (Steele et al. 2014).
"""

import numpy as np
from numpy.typing import NDArray

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def bits(*numbers: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return 64 random bits for the numbers; arrays among them are taken together element by element."""
    state = np.zeros(1, dtype=np.uint64)
    with np.errstate(over="ignore"):  # wrapping around is what the mixing does
        for number in numbers:
            whole = number % (1 << 64) if isinstance(number, int) else number
            state = mixed((state + STEP) ^ mixed(np.atleast_1d(np.asarray(whole)).astype(np.uint64) + STEP))
    return state


def share(*numbers: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Return a random number of [0, 1) for the numbers."""
    return (bits(*numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def order(n: int, *numbers: int) -> NDArray[np.int64]:
    """Return the numbers below `n` in a random order."""
    return np.argsort(bits(*numbers, np.arange(n)), kind="stable")


def mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all 64."""
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))
