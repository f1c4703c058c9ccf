"""Questions about sequences of ids, asked while a request is checked."""

from collections.abc import Iterable, Sequence


def contains(sequence: Sequence[int], part: Sequence[int]) -> bool:
    """Say whether `part` occurs in `sequence` without gaps."""
    width = len(part)
    return any(tuple(sequence[i : i + width]) == tuple(part) for i in range(len(sequence) - width + 1))


def independent(sequences: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the different sequences, without those that come along inside another."""
    different = list(dict.fromkeys(tuple(sequence) for sequence in sequences))
    return [one for one in different if not any(one != other and contains(other, one) for other in different)]
