"""Greedy search: the likeliest token at every step."""

from jaxtyping import Float, Int
from torch import Tensor


def greedy_tokens(scores: Float[Tensor, "R V"], _rows: list[int]) -> Int[Tensor, "R"]:
    """Return the best token of each row, the lowest id in a tie."""
    return scores.argmax(dim=1)
