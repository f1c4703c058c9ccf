"""Hold out a validation set, so that no source sentence and no neighboring lines are in both splits.

Examples with the same source (ignoring case and spacing) share a key and stay together. The split depends only on the
keys and the seed, not on the order of the corpus. Classes are split in equal shares.
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


def hold_out(keys: NDArray[np.uint64], *, seed: int, size: int) -> NDArray[np.bool_]:
    """Return which examples to hold out: whole groups of one key, `size` examples or slightly fewer."""
    ranked = rank_keys(keys, seed)
    groups, counts = find_lowest_groups(ranked, at_least=4 * size)
    if len(groups) < 2:
        raise InputError(
            "no validation set can be held out: there are fewer than two distinct sentences (or chunks of text). "
            "Give more data, or a validation file as data.valid"
        )
    selected = groups[select_groups(counts, size)]
    held_out = np.zeros(len(keys), dtype=np.bool_)
    for start in range(0, len(keys), CHUNK_EXAMPLES):
        held_out[start : start + CHUNK_EXAMPLES] = np.isin(ranked[start : start + CHUNK_EXAMPLES], selected)
    return held_out


def rank_keys(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return random numbers for keys, the same for the same key."""
    ranked = np.empty(len(keys), dtype=np.uint64)
    for start in range(0, len(keys), CHUNK_EXAMPLES):
        ranked[start : start + CHUNK_EXAMPLES] = random_bits(seed, keys[start : start + CHUNK_EXAMPLES])
    return ranked


def hold_out_by_class(
    keys: NDArray[np.uint64], classes: NDArray[np.int64], *, seed: int, size: int
) -> NDArray[np.bool_]:
    """Return which examples to hold out so that every class has its share of them; a class of one example has none."""
    owners = class_of_groups(keys, classes)
    names, counts = np.unique(owners, return_counts=True)
    if len(keys) < 2 * len(names) or len(names) < 2:
        return hold_out(keys, seed=seed, size=size)
    held_out = np.zeros(len(keys), dtype=np.bool_)
    for name, quota in zip(names, apportion(counts, size), strict=True):
        members = np.flatnonzero(owners == name)
        if quota and len(np.unique(keys[members])) > 1:
            held_out[members] = hold_out(keys[members], seed=seed, size=int(quota))
    return held_out if held_out.any() else hold_out(keys, seed=seed, size=size)


def class_of_groups(keys: NDArray[np.uint64], classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each example's group: the lowest, where the examples of a key have several."""
    _, group = np.unique(keys, return_inverse=True)
    lowest = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(lowest, group, np.asarray(classes, dtype=np.int64))
    owners: NDArray[np.int64] = lowest[group]
    return owners


def apportion(counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Divide a number in the ratio of the counts, by the largest remainders; no class gives more than half."""
    exact = counts * (size / counts.sum())
    quotas = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(quotas - exact, kind="stable")
    quotas[by_remainder[: size - int(quotas.sum())]] += 1
    limited: NDArray[np.int64] = np.minimum(quotas, counts // 2)
    return limited


def hold_out_fold(
    keys: NDArray[np.uint64], classes: NDArray[np.int64] | None, *, seed: int, fold: int, folds: int
) -> NDArray[np.bool_]:
    """Return which examples are in one of `folds` equal parts, counted from 1; every class is spread over all parts."""
    owners = np.zeros(len(keys), dtype=np.int64) if classes is None else class_of_groups(keys, classes)
    ranked = rank_keys(keys, seed)
    _, first, group = np.unique(ranked, return_index=True, return_inverse=True)
    if len(first) < folds:
        raise InputError(
            f"{folds} folds need {folds} distinct examples or more: set data.folds lower, or give more data"
        )
    dealt = np.empty(len(first), dtype=np.int64)
    dealt[np.argsort(owners[first], kind="stable")] = np.arange(len(first)) % folds  # in turns, class by class
    held_out: NDArray[np.bool_] = dealt[group] == fold - 1
    return held_out


MIN_VALIDATION, MAX_VALIDATION, MAX_SHARE = 200, 2_000, 0.2
"""Limits of a validation set: fewer examples tell little, more take time; a small corpus gives a fifth at most."""
CHUNK_WEIGHT = 10
"""Examples that a chunk of running text stands for in these limits: it has many sentences."""


def validation_size(n_examples: int, *, share: float | None = 0.1, chunks: bool = False) -> int:
    """Return how many examples, or chunks of running text, to hold out; without a share, as many as 0.2.0 did."""
    if share is None:
        return max(1, min(MAX_VALIDATION, max(round(0.01 * n_examples), min(20, n_examples // 10))))
    weight = CHUNK_WEIGHT if chunks else 1
    wanted = min(MAX_VALIDATION / weight, max(share * n_examples, MIN_VALIDATION / weight))
    return max(1, int(min(wanted, MAX_SHARE * n_examples) + 1e-9))


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


def hold_out_line_groups(documents: Int[ndarray, " n"], *, seed: int, size: int) -> Bool[ndarray, " n"]:
    """Return which lines to hold out: whole groups, with consecutive lines in both splits.

    Next-sentence prediction needs such lines. A document is one group, a long one several.
    """
    length = max(MIN_GROUP_LINES, min(MAX_GROUP_LINES, size))
    numbers = group_lines(documents, length=length)
    keys: UInt64[ndarray, " n"] = numbers.astype(np.uint64)
    for attempt in range(HOLD_OUT_ATTEMPTS):
        held_out = hold_out(keys, seed=seed + attempt, size=size)
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
