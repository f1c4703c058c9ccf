"""Lexical constraints: sequences that must appear in the generated text, and how a beam makes room for them.

Everything is a pure function of the tokens generated so far, so nothing must be reordered with the rows of a beam.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sightline.decoding.sequences import drop_contained


class LexicalConstraints:
    """Sequences of ids that must each appear at least once, without gaps.

    The outstanding tokens are those of all missing sequences, minus the part already generated of the most advanced
    one. Completing that one and then generating the others satisfies all, and each token of this plan lowers the count
    by at least one. So if only tokens are allowed after which the count fits into the remaining length, there always is
    one, and at the length limit nothing is missing. (Two sequences may overlap where one ends as the other begins; the
    plan does not rely on it.)
    """

    def __init__(self, sequences: Sequence[Sequence[int]], *, device: torch.device | None = None) -> None:
        needed = drop_contained(sequences)
        self.sequences = [torch.tensor(sequence, device=device) for sequence in needed]
        self.tokens = torch.tensor(sorted({i for sequence in needed for i in sequence}), device=device)

    def missing(self, history: Int[Tensor, "R T"]) -> tuple[Int[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the tokens of all missing sequences, and how many of the most advanced one are generated already."""
        length = history.size(1)
        total = history.new_zeros(len(history))
        begun = history.new_zeros(len(history))
        for sequence in self.sequences:
            size = len(sequence)
            is_missing = torch.ones_like(total, dtype=torch.bool)
            if length >= size:
                is_missing = ~(history.unfold(1, size, 1) == sequence).all(dim=2).any(dim=1)
            total = total + size * is_missing
            for part in range(1, min(size - 1, length) + 1):
                ends_in_part = is_missing & (history[:, length - part :] == sequence[:part]).all(dim=1)
                begun = torch.where(ends_in_part, begun.clamp(min=part), begun)
        return total, begun

    def outstanding(self, history: Int[Tensor, "R T"]) -> Int[Tensor, "R"]:
        """Return how many more tokens satisfy all constraints."""
        total, begun = self.missing(history)
        return total - begun

    def has_room(self, history: Int[Tensor, "R T"], remaining: Int[Tensor, "R"]) -> Bool[Tensor, "R"]:
        """Return which rows still have room for a token that belongs to no sequence."""
        return self.missing(history)[0] < remaining


def allocate_beam(banks: Sequence[int]) -> list[int]:
    """Return the ranks 0, 1, … of candidates, best first, in the order in which they get a slot in the beam.

    Dynamic beam allocation (Post & Vilar 2018, 3.2): a bank holds the candidates that have satisfied equally much of
    the constraints. Each bank in turn places its best candidate, the most advanced bank first, then its second and so
    on, so that the beam is filled neither by likely candidates that postpone the constraints nor by unlikely ones that
    satisfy them. The first slot goes to the best of all: a beam of one is greedy here too.
    """
    placed: Counter[int] = Counter()
    order = []
    for rank, bank in enumerate(banks):
        order.append((placed[bank], rank != 0, -bank, rank))
        placed[bank] += 1
    return [rank for *_, rank in sorted(order)]
