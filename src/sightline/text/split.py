"""Set some examples aside to validate on, so that no source sentence is on both sides.

Examples with the same source (in whatever case and spacing) have one key and stay together. The keys, shuffled by the
seed, decide alone: the order of the corpus does not matter.
"""

import unicodedata
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.text.chance import bits

SHARE, MOST = 0.01, 2_000
"""A hundredth of the examples is set aside, and no more than this many."""

LEAST = 20
"""Examples that are set aside from a small corpus, if that is not more than a tenth of it."""

CHUNK = 1 << 20
"""Examples looked at at once, so that a large corpus needs no several copies of its keys."""


def key_of(source: str) -> int:
    """Return 64 bits that sources have in common if they differ in case and spacing only."""
    normalised = " ".join(unicodedata.normalize("NFKC", source).casefold().split())
    return int.from_bytes(blake2b(normalised.encode("utf-8"), digest_size=8).digest(), "little")


def validation_size(n_examples: int) -> int:
    """Return how many examples to set aside."""
    return max(1, min(MOST, max(round(SHARE * n_examples), min(LEAST, n_examples // 10))))


def set_aside(keys: NDArray[np.uint64], *, seed: int, size: int | None = None) -> NDArray[np.bool_]:
    """Return which examples to validate on: whole groups of one key, `size` examples or a little less."""
    wanted = validation_size(len(keys)) if size is None else size
    ranked = np.empty(len(keys), dtype=np.uint64)
    for start in range(0, len(keys), CHUNK):
        ranked[start : start + CHUNK] = bits(seed, keys[start : start + CHUNK])
    groups, counts = lowest_groups(ranked, at_least=4 * wanted)
    if len(groups) < 2:
        raise InputError(
            "a validation set cannot be split off: there are not two different sentences (or passages of text). "
            "Give more data, or a file of its own as data.valid"
        )
    chosen = groups[fitting(counts, wanted)]
    side = np.zeros(len(keys), dtype=np.bool_)
    for start in range(0, len(keys), CHUNK):
        side[start : start + CHUNK] = np.isin(ranked[start : start + CHUNK], chosen)
    return side


def lowest_groups(ranked: NDArray[np.uint64], *, at_least: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the lowest keys and how many examples have each: enough of them, but not all of a large corpus."""
    share = 2.0 * at_least / max(1, len(ranked))
    while share < 1:
        groups, counts = np.unique(ranked[ranked < np.uint64(share * 2.0**64)], return_counts=True)
        if len(groups) >= at_least:
            return groups, counts
        share *= 4
    return np.unique(ranked, return_counts=True)


def fitting(counts: NDArray[np.int64], wanted: int) -> list[int]:
    """Return which groups to take, in order, skipping those that are too large; if all are, the smallest."""
    taken, total = [], 0
    for group, count in enumerate(counts.tolist()):
        if total + count <= wanted:
            taken.append(group)
            total += count
    if not taken:
        return [int(np.argmin(counts))]
    return taken if len(taken) < len(counts) else taken[:-1]
