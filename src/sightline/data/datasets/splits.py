"""Hold out a validation set, so that no source sentence and no neighboring lines are in both splits.

Examples with the same source (ignoring case and spacing) share a key and stay together. The split depends only on the
keys and the seed, not on the order of the corpus.
"""

import unicodedata
from hashlib import blake2b

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray
from numpy.typing import NDArray

from sightline.data.datasets.stateless_random import random_bits
from sightline.errors import InputError


def split_key(source: str) -> int:
    """Return a 64-bit hash that sources share if they differ only in case and spacing."""
    normalized = " ".join(unicodedata.normalize("NFKC", source).casefold().split())
    return int.from_bytes(blake2b(normalized.encode("utf-8"), digest_size=8).digest(), "little")


CHUNK_EXAMPLES = 1 << 20
"""Examples processed at once, so that the keys of a large corpus are not copied several times."""


def hold_out(keys: NDArray[np.uint64], *, seed: int, size: int | None = None) -> NDArray[np.bool_]:
    """Return which examples to hold out: whole groups of one key, `size` examples or slightly fewer."""
    n_wanted = validation_size(len(keys)) if size is None else size
    ranked = np.empty(len(keys), dtype=np.uint64)
    for start in range(0, len(keys), CHUNK_EXAMPLES):
        ranked[start : start + CHUNK_EXAMPLES] = random_bits(seed, keys[start : start + CHUNK_EXAMPLES])
    groups, counts = find_lowest_groups(ranked, at_least=4 * n_wanted)
    if len(groups) < 2:
        raise InputError(
            "no validation set can be held out: there are fewer than two distinct sentences (or chunks of text). "
            "Give more data, or a validation file as data.valid"
        )
    selected = groups[select_groups(counts, n_wanted)]
    held_out = np.zeros(len(keys), dtype=np.bool_)
    for start in range(0, len(keys), CHUNK_EXAMPLES):
        held_out[start : start + CHUNK_EXAMPLES] = np.isin(ranked[start : start + CHUNK_EXAMPLES], selected)
    return held_out


VALIDATION_SHARE, MAX_VALIDATION = 0.01, 2_000
"""Share of the examples that is held out, and the maximum number."""

MIN_VALIDATION = 20
"""Examples held out from a small corpus, unless that is more than a tenth of it."""


def validation_size(n_examples: int) -> int:
    """Return how many examples to hold out."""
    return max(1, min(MAX_VALIDATION, max(round(VALIDATION_SHARE * n_examples), min(MIN_VALIDATION, n_examples // 10))))


def find_lowest_groups(ranked: NDArray[np.uint64], *, at_least: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the lowest keys and their example counts: enough of them, without sorting all of a large corpus."""
    share = 2.0 * at_least / max(1, len(ranked))
    while share < 1:
        groups, counts = np.unique(ranked[ranked < np.uint64(share * 2.0**64)], return_counts=True)
        if len(groups) >= at_least:
            return groups, counts
        share *= 4
    return np.unique(ranked, return_counts=True)


def select_groups(counts: NDArray[np.int64], n_wanted: int) -> list[int]:
    """Return which groups to hold out, in order, skipping those that are too large; if all are, the smallest."""
    taken, total = [], 0
    for group, count in enumerate(counts.tolist()):
        if total + count <= n_wanted:
            taken.append(group)
            total += count
    if not taken:
        return [int(np.argmin(counts))]
    return taken if len(taken) < len(counts) else taken[:-1]


MAX_GROUP_LINES, MIN_GROUP_LINES = 32, 4
"""Lines of a group, where a document has more."""

HOLD_OUT_ATTEMPTS = 20


def hold_out_line_groups(documents: Int[ndarray, " n"], *, seed: int) -> Bool[ndarray, " n"]:
    """Return which lines to hold out: whole groups, with consecutive lines in both splits.

    Next-sentence prediction needs such lines. A document is one group, a long one several.
    """
    n = len(documents)
    length = max(MIN_GROUP_LINES, min(MAX_GROUP_LINES, validation_size(n)))
    numbers = group_lines(documents, length=length)
    keys: UInt64[ndarray, " n"] = numbers.astype(np.uint64)
    for attempt in range(HOLD_OUT_ATTEMPTS):
        held_out = hold_out(keys, seed=seed + attempt)
        if has_neighbors(numbers[held_out]) and has_neighbors(numbers[~held_out]):
            return held_out
    raise InputError(
        "no validation set can be held out: too few documents have two consecutive lines. "
        "Give more text, or a validation file as data.valid"
    )


def group_lines(documents: Int[ndarray, " n"], *, length: int = MAX_GROUP_LINES) -> Int[ndarray, " n"]:
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


def has_neighbors(numbers: Int[ndarray, " some"]) -> bool:
    """Return whether some line is followed by another of its group, and a third can be its negative example."""
    return len(numbers) > 2 and bool((numbers[1:] == numbers[:-1]).any())
