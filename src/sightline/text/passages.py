"""Running text in passages: neighbouring lines that stay together when some of a text is set aside.

For models that learn which sentence follows which. Documents are passages; long ones are several.
"""

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.split import set_aside, validation_size

LONGEST, SHORTEST = 32, 4
"""Lines of a passage, where a document has more."""

ATTEMPTS = 20


def passages(documents: Int[ndarray, " n"], *, length: int = LONGEST) -> Int[ndarray, " n"]:
    """Number the passages of a text, given the document of each line; what is left of a document joins its last one."""
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


def set_passages_aside(documents: Int[ndarray, " n"], *, seed: int) -> Bool[ndarray, " n"]:
    """Choose passages to validate on, so that on both sides some line follows another."""
    n = len(documents)
    length = max(SHORTEST, min(LONGEST, validation_size(n)))
    numbers = passages(documents, length=length)
    keys: UInt64[ndarray, " n"] = numbers.astype(np.uint64)
    for attempt in range(ATTEMPTS):
        aside = set_aside(keys, seed=seed + attempt)
        if has_neighbours(numbers[aside]) and has_neighbours(numbers[~aside]):
            return aside
    raise InputError(
        "a validation set cannot be split off: too few documents have two lines that follow each other. "
        "Give more text, or a file of its own as data.valid"
    )


def has_neighbours(numbers: Int[ndarray, " some"]) -> bool:
    """Tell whether some line is followed by another of its passage, and a third is there to be mistaken for it."""
    return len(numbers) > 2 and bool((numbers[1:] == numbers[:-1]).any())
