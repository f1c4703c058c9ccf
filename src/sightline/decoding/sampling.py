"""Tokens drawn at random, with the model's probabilities or some of them."""

import random

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.filters import best_tokens, keep_min_p, keep_top_p
from sightline.decoding.request import Request
from sightline.decoding.settings import DecodingSettings


class Sampler:
    """Draws one token for each row, from a source of chance that is the row's own.

    The chance depends on the seed and on which of its sentence's samples a row is, not on the sentence's place in the
    batch: alone or beside others, a sentence gets the same texts. Sentences with the same seed therefore share their
    luck; give `seeds` where that matters. Without a seed every row differs, every time.
    """

    def __init__(self, request: Request) -> None:
        self.settings = request.settings
        seeds = request.seeds or [request.settings.seed] * len(request.contexts)
        self.chances = [_chance(seed, number) for seed in seeds for number in range(request.settings.n_best)]

    def __call__(self, preference: Float[Tensor, "R V"], rows: list[int]) -> Int[Tensor, "R"]:
        """Return the token at which the cumulated probability passes a random number."""
        scores, tokens = narrowed(preference, self.settings)
        reached = scores.softmax(dim=1).cumsum(dim=1, dtype=torch.float64)
        numbers = torch.tensor([self.chances[row].random() for row in rows], dtype=torch.float64, device=scores.device)
        drawn = torch.searchsorted(reached, numbers[:, None] * reached[:, -1:], right=True)
        drawn = drawn.clamp(max=scores.size(1) - 1)  # a row with nothing allowed is NaN; the walk refuses it
        return (drawn if tokens is None else tokens.gather(1, drawn))[:, 0]


def narrowed(
    preference: Float[Tensor, "R V"], settings: DecodingSettings
) -> tuple[Float[Tensor, "R M"], Int[Tensor, "R M"] | None]:
    """Return the scores to draw from and the tokens they belong to (None: all, in order).

    Temperature comes first, then top-k, then top-p and min-p of what is left.
    """
    scores = preference / settings.temperature if settings.temperature != 1 else preference
    tokens = None
    if settings.top_k:
        scores, tokens = best_tokens(scores, settings.top_k)
    if settings.top_p < 1:
        scores = keep_top_p(scores, settings.top_p)
    if settings.min_p:
        scores = keep_min_p(scores, settings.min_p)
    return scores, tokens


def _chance(seed: int | None, number: int) -> random.Random:
    """Return a source of chance for one sample; Python's costs less per number than a tensor's."""
    return random.Random(None if seed is None else f"{seed}/{number}")  # noqa: S311 - no secret hangs on it
