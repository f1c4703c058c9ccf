"""Line groups: consecutive lines of running text that stay together when a validation set is held out.

For next-sentence prediction, which needs consecutive lines in both splits. A document is one group, a long one several.
"""

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.split import hold_out, validation_size

MAX_LINES, MIN_LINES = 32, 4
"""Lines of a group, where a document has more."""

ATTEMPTS = 20


def group_lines(documents: Int[ndarray, " n"], *, length: int = MAX_LINES) -> Int[ndarray, " n"]:
    """Return the group number of each line, given its document; a remainder joins the last group of its document."""
    n = len(documents)
    lines = np.arange(n)
    begins = np.flatnonzero(np.diff(documents, prepend=documents[:1] - 1))
    which = np.searchsorted(begins, lines, side="right") - 1
    within, sizes = lines - begins[which], np.diff(np.append(begins, n))[which]
    part = np.minimum(within // length, np.maximum(sizes // length - 1, 0))
    new = np.diff(part, prepend=-1) != 0
    new[begins] = True
    numbers: Int[ndarray, " n"] = new.cumsum() - 1
    return numbers


def hold_out_line_groups(documents: Int[ndarray, " n"], *, seed: int) -> Bool[ndarray, " n"]:
    """Return which lines to hold out: whole groups, with consecutive lines in both splits."""
    n = len(documents)
    length = max(MIN_LINES, min(MAX_LINES, validation_size(n)))
    numbers = group_lines(documents, length=length)
    keys: UInt64[ndarray, " n"] = numbers.astype(np.uint64)
    for attempt in range(ATTEMPTS):
        held_out = hold_out(keys, seed=seed + attempt)
        if has_neighbors(numbers[held_out]) and has_neighbors(numbers[~held_out]):
            return held_out
    raise InputError(
        "no validation set can be held out: too few documents have two consecutive lines. "
        "Give more text, or a validation file as data.valid"
    )


def has_neighbors(numbers: Int[ndarray, " some"]) -> bool:
    """Return whether some line is followed by another of its group, and a third can be its negative example."""
    return len(numbers) > 2 and bool((numbers[1:] == numbers[:-1]).any())
