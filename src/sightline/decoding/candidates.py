"""The next tokens a beam chooses from, for all sentences at once.

Shapes: B sentences, K live hypotheses of each, N candidates of each, best first. Row `sentence * K + beam`.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.filters import best_tokens
from sightline.decoding.requirements import Requirements, fair_order


@dataclass(frozen=True)
class Candidates:
    """Hypotheses that are one token longer. A total of −∞ marks a place that nothing fills."""

    totals: Float[Tensor, "B N"]
    """Log-probability of the whole, as far as the ranking is concerned, in fp64."""
    parents: Int[Tensor, "B N"]
    """The row that is continued."""
    tokens: Int[Tensor, "B N"]

    def at(self, places: Int[Tensor, "B M"]) -> "Candidates":
        """Return the candidates at these places of each sentence."""
        picked = (tensor.gather(1, places) for tensor in (self.totals, self.parents, self.tokens))
        return Candidates(*picked)

    def of(self, groups: list[int]) -> "Candidates":
        """Return the candidates of these sentences."""
        return Candidates(self.totals[groups], self.parents[groups], self.tokens[groups])

    def alive(self) -> Bool[Tensor, "B N"]:
        """Say which places are filled."""
        return self.totals > -math.inf

    def survivors(self, ends: Bool[Tensor, "B N"], width: int) -> tuple["Candidates", Int[Tensor, "B K"]]:
        """Return the first `width` candidates that do not end, and their places.

        An unfilled place continues what the first one continues: the step must be given something it can compute.
        """
        places = ends.int().sort(dim=1, stable=True).indices[:, :width]
        picked = self.at(places)
        totals = picked.totals.masked_fill(ends.gather(1, places), -math.inf)
        filled = totals > -math.inf
        parents = torch.where(filled, picked.parents, picked.parents[:, :1])
        tokens = torch.where(filled, picked.tokens, picked.tokens[:, :1])
        return Candidates(totals, parents, tokens), places


def propose(
    preference: Float[Tensor, "R V"], totals: Float[Tensor, "B K"], *, per_row: int, at_least: int
) -> Candidates:
    """Return the best `per_row` continuations of each hypothesis, those of one sentence in one order.

    Equal totals are ordered by the place of their hypothesis in the beam, then by token id.
    """
    values, tokens = best_tokens(preference, per_row)  # R M
    return _ordered(values, tokens, totals, at_least=at_least)


def propose_fairly(
    preference: Float[Tensor, "R V"],
    totals: Float[Tensor, "B K"],
    *,
    per_row: int,
    at_least: int,
    requirements: Requirements,
    generated: Int[Tensor, "R T"],
) -> Candidates:
    """Return what `propose` does and each token of a required sequence, ordered so that each stage gets seats."""
    values, tokens = best_tokens(preference, per_row)
    needed = requirements.tokens.expand(len(tokens), -1)
    proposed_already = (needed[:, :, None] == tokens[:, None, :]).any(dim=2)
    values = torch.cat([values, preference.gather(1, needed).masked_fill(proposed_already, -math.inf)], dim=1)
    tokens = torch.cat([tokens, needed], dim=1)
    candidates = _ordered(values, tokens, totals, at_least=at_least)
    longer = torch.cat([generated[candidates.parents.flatten()], candidates.tokens.reshape(-1, 1)], dim=1)
    banks = (-requirements.outstanding(longer)).view_as(candidates.tokens)
    # Unfilled places come last in both orders, so only the filled ones are seated.
    filled = candidates.alive().sum(dim=1).tolist()
    seats = [
        fair_order(own[:count]) + list(range(count, len(own)))
        for own, count in zip(banks.tolist(), filled, strict=True)
    ]
    return candidates.at(torch.tensor(seats, device=preference.device))


def _ordered(
    values: Float[Tensor, "R M"], tokens: Int[Tensor, "R M"], totals: Float[Tensor, "B K"], *, at_least: int
) -> Candidates:
    """Add what came before, and order the continuations of each sentence; unfilled places make up `at_least`."""
    sentences = len(totals)
    grown = (totals.reshape(-1, 1) + values).view(sentences, -1)  # B K*M
    parents = torch.arange(len(values), device=values.device).repeat_interleave(values.size(1)).view(sentences, -1)
    tokens = tokens.reshape(sentences, -1)
    if (missing := at_least - grown.size(1)) > 0:
        grown = F.pad(grown, (0, missing), value=-math.inf)
        parents, tokens = F.pad(parents, (0, missing)), F.pad(tokens, (0, missing))
    candidates = Candidates(grown, parents, tokens)
    return candidates.at(candidates.totals.sort(dim=1, descending=True, stable=True).indices)
