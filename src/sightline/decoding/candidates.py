"""Candidates of a beam: hypotheses extended by one token, for all sentences at once.

Shapes: B sentences, K live hypotheses each, N candidates each, best first. Row `sentence * K + beam`.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.constraints import LexicalConstraints, allocate_beam
from sightline.decoding.logits_processors import best_tokens


@dataclass(frozen=True)
class Candidates:
    """Hypotheses extended by one token. A total of −∞ marks an empty slot."""

    totals: Float[Tensor, "B N"]
    """Ranking log-probability of the whole hypothesis, in fp64."""
    parents: Int[Tensor, "B N"]
    """The row that is extended."""
    tokens: Int[Tensor, "B N"]

    def at(self, ranks: Int[Tensor, "B M"]) -> "Candidates":
        """Return the candidates of these ranks, per sentence."""
        picked = (tensor.gather(1, ranks) for tensor in (self.totals, self.parents, self.tokens))
        return Candidates(*picked)

    def of(self, groups: list[int]) -> "Candidates":
        """Return the candidates of these sentences."""
        return Candidates(self.totals[groups], self.parents[groups], self.tokens[groups])

    def alive(self) -> Bool[Tensor, "B N"]:
        """Return which slots are filled."""
        return self.totals > -math.inf

    def survivors(self, ends: Bool[Tensor, "B N"], width: int) -> tuple["Candidates", Int[Tensor, "B K"]]:
        """Return the first `width` candidates that do not end, and their ranks.

        An empty slot repeats the parent and token of the first one, since the step needs a valid input.
        """
        ranks = ends.int().sort(dim=1, stable=True).indices[:, :width]
        picked = self.at(ranks)
        totals = picked.totals.masked_fill(ends.gather(1, ranks), -math.inf)
        filled = totals > -math.inf
        parents = torch.where(filled, picked.parents, picked.parents[:, :1])
        tokens = torch.where(filled, picked.tokens, picked.tokens[:, :1])
        return Candidates(totals, parents, tokens), ranks


def propose(scores: Float[Tensor, "R V"], totals: Float[Tensor, "B K"], *, per_row: int, at_least: int) -> Candidates:
    """Return the best `per_row` extensions of each hypothesis, sorted per sentence.

    Equal totals are ordered by the index of their hypothesis in the beam, then by token id.
    """
    values, tokens = best_tokens(scores, per_row)  # R M
    return _sort(values, tokens, totals, at_least=at_least)


def propose_constrained(
    scores: Float[Tensor, "R V"],
    totals: Float[Tensor, "B K"],
    *,
    per_row: int,
    at_least: int,
    constraints: LexicalConstraints,
    generated: Int[Tensor, "R T"],
) -> Candidates:
    """Return the candidates of `propose` and each token of a forced sequence, ordered by `allocate_beam`."""
    values, tokens = best_tokens(scores, per_row)
    needed = constraints.tokens.expand(len(tokens), -1)
    proposed_already = (needed[:, :, None] == tokens[:, None, :]).any(dim=2)
    values = torch.cat([values, scores.gather(1, needed).masked_fill(proposed_already, -math.inf)], dim=1)
    tokens = torch.cat([tokens, needed], dim=1)
    candidates = _sort(values, tokens, totals, at_least=at_least)
    longer = torch.cat([generated[candidates.parents.flatten()], candidates.tokens.reshape(-1, 1)], dim=1)
    banks = (-constraints.outstanding(longer)).view_as(candidates.tokens)
    # Empty slots come last in both orders, so only the filled ones are allocated.
    filled = candidates.alive().sum(dim=1).tolist()
    ranks = [
        allocate_beam(bank_of[:count]) + list(range(count, len(bank_of)))
        for bank_of, count in zip(banks.tolist(), filled, strict=True)
    ]
    return candidates.at(torch.tensor(ranks, device=scores.device))


def _sort(
    values: Float[Tensor, "R M"], tokens: Int[Tensor, "R M"], totals: Float[Tensor, "B K"], *, at_least: int
) -> Candidates:
    """Add the totals of the parents and sort the extensions of each sentence; pad with empty slots to `at_least`."""
    sentences = len(totals)
    extended = (totals.reshape(-1, 1) + values).view(sentences, -1)  # B K*M
    parents = torch.arange(len(values), device=values.device).repeat_interleave(values.size(1)).view(sentences, -1)
    tokens = tokens.reshape(sentences, -1)
    if (missing := at_least - extended.size(1)) > 0:
        extended = F.pad(extended, (0, missing), value=-math.inf)
        parents, tokens = F.pad(parents, (0, missing)), F.pad(tokens, (0, missing))
    candidates = Candidates(extended, parents, tokens)
    return candidates.at(candidates.totals.sort(dim=1, descending=True, stable=True).indices)
