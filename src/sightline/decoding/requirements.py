"""Sequences that must appear: what is missing of them, and which tokens still leave room for it.

Everything is a pure function of the tokens generated so far, so nothing must follow when a beam reorders its rows.
"""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.filters import forbid_tokens
from sightline.decoding.sequences import independent


class Requirements:
    """Sequences of ids that each must appear at least once, without gaps.

    What is outstanding is counted as the tokens of all missing sequences, less those of the one that is furthest
    begun. Writing out that one and then the others meets them all, and each token of that plan brings the count down
    by one at least. So if only tokens are allowed after which the count fits into the remaining length, there is
    always one, and at the length limit nothing is missing. (Two sequences may share tokens where one ends as the
    other begins; the plan does not count on it.)
    """

    def __init__(self, sequences: Sequence[Sequence[int]], *, device: torch.device | None = None) -> None:
        needed = independent(sequences)
        self.sequences = [torch.tensor(sequence, device=device) for sequence in needed]
        self.tokens = torch.tensor(sorted({i for sequence in needed for i in sequence}), device=device)

    def missing(self, history: Int[Tensor, "R T"]) -> tuple[Int[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the tokens of all missing sequences, and how many of the furthest begun one are already there."""
        length = history.size(1)
        total = history.new_zeros(len(history))
        begun = history.new_zeros(len(history))
        for sequence in self.sequences:
            size = len(sequence)
            lacks = torch.ones_like(total, dtype=torch.bool)
            if length >= size:
                lacks = ~(history.unfold(1, size, 1) == sequence).all(dim=2).any(dim=1)
            total = total + size * lacks
            for part in range(1, min(size - 1, length) + 1):
                here = lacks & (history[:, length - part :] == sequence[:part]).all(dim=1)
                begun = torch.where(here, begun.clamp(min=part), begun)
        return total, begun

    def outstanding(self, history: Int[Tensor, "R T"]) -> Int[Tensor, "R"]:
        """Return how many more tokens meet all that is missing."""
        total, begun = self.missing(history)
        return total - begun

    def free(self, history: Int[Tensor, "R T"], remaining: Int[Tensor, "R"]) -> Bool[Tensor, "R"]:
        """Say which rows still have room for a token of no sequence."""
        return self.missing(history)[0] < remaining

    def keep_room(
        self,
        scores: Float[Tensor, "R V"],
        history: Int[Tensor, "R T"],
        *,
        remaining: Int[Tensor, "R"],
        end_ids: Int[Tensor, "Q"],
    ) -> Float[Tensor, "R V"]:
        """Forbid the end while something is missing, and every token after which it would no longer fit."""
        rows, count = len(history), len(self.tokens)
        longer = torch.cat([history.repeat_interleave(count, 0), self.tokens.repeat(rows)[:, None]], dim=1)
        fits = self.outstanding(longer).view(rows, count) < remaining[:, None]
        total, _ = self.missing(history)
        kept = scores.masked_fill((total >= remaining)[:, None], -math.inf)
        kept = kept.index_copy(1, self.tokens, scores[:, self.tokens].masked_fill(~fits, -math.inf))
        return forbid_tokens(kept, end_ids, total > 0)


def fair_order(banks: Sequence[int]) -> list[int]:
    """Return the places 0, 1, … of candidates, best first, in the order in which they are given a seat in the beam.

    A bank holds the candidates with equally much of the required done. Each bank in turn seats its best, the furthest
    first, then its second and so on, so that neither the likely (who put it off) nor the dutiful fill the beam alone
    (Post & Vilar 2018, 3.2). The first seat goes to the best of all: a beam of one is greedy here too.
    """
    seated: Counter[int] = Counter()
    turns = []
    for place, bank in enumerate(banks):
        turns.append((seated[bank], place != 0, -bank, place))
        seated[bank] += 1
    return [place for *_, place in sorted(turns)]
