"""Containment of id sequences, for checking requests and constraints."""

from collections.abc import Iterable, Sequence


def contains(sequence: Sequence[int], part: Sequence[int]) -> bool:
    """Tell whether `part` occurs in `sequence` without gaps."""
    width = len(part)
    return any(tuple(sequence[i : i + width]) == tuple(part) for i in range(len(sequence) - width + 1))


def drop_contained(sequences: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the distinct sequences, without those contained in another."""
    distinct = list(dict.fromkeys(tuple(sequence) for sequence in sequences))
    return [one for one in distinct if not any(one != other and contains(other, one) for other in distinct)]
