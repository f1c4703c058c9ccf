"""Sampling: tokens drawn at random, with temperature, top-k, top-p and min-p."""

import random

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.logits_processors import best_tokens, keep_min_p, keep_top_p
from sightline.decoding.request import Request
from sightline.decoding.settings import DecodingSettings


class Sampler:
    """Draws one token for each row, from a random generator of its own.

    A row's generator depends on the seed and on the row's number among the samples of its sentence, not on the position
    of the sentence in the batch: alone or batched, a sentence gets the same texts. Sentences with the same seed
    therefore draw the same random numbers; give `seeds` where that matters. Without a seed every row differs.
    """

    def __init__(self, request: Request) -> None:
        self.settings = request.settings
        seeds = request.seeds or [request.settings.seed] * len(request.contexts)
        self.generators = [_make_generator(seed, number) for seed in seeds for number in range(request.settings.n_best)]

    def __call__(self, scores: Float[Tensor, "R V"], rows: list[int]) -> Int[Tensor, "R"]:
        """Return the token at which the cumulative probability exceeds a random number."""
        scores, tokens = filter_logits(scores, self.settings)
        cumulative = scores.softmax(dim=1).cumsum(dim=1, dtype=torch.float64)
        numbers = [self.generators[row].random() for row in rows]
        thresholds = torch.tensor(numbers, dtype=torch.float64, device=scores.device)[:, None] * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, thresholds, right=True)
        drawn = drawn.clamp(max=scores.size(1) - 1)  # a row with no allowed token is NaN; the search rejects it
        return (drawn if tokens is None else tokens.gather(1, drawn))[:, 0]


def filter_logits(
    scores: Float[Tensor, "R V"], settings: DecodingSettings
) -> tuple[Float[Tensor, "R M"], Int[Tensor, "R M"] | None]:
    """Return the scores to sample from and their tokens (None: all, in order).

    Temperature comes first, then top-k, then top-p and min-p of the remaining tokens.
    """
    scores = scores / settings.temperature if settings.temperature != 1 else scores
    tokens = None
    if settings.top_k:
        scores, tokens = best_tokens(scores, settings.top_k)
    if settings.top_p < 1:
        scores = keep_top_p(scores, settings.top_p)
    if settings.min_p:
        scores = keep_min_p(scores, settings.min_p)
    return scores, tokens


def _make_generator(seed: int | None, number: int) -> random.Random:
    """Return the random generator of one sample; Python's costs less per number than torch's."""
    return random.Random(None if seed is None else f"{seed}/{number}")  # noqa: S311 - not for security
