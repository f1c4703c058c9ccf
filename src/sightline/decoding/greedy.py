"""The likeliest token at every step."""

from jaxtyping import Float, Int
from torch import Tensor


def likeliest(preference: Float[Tensor, "R V"], _rows: list[int]) -> Int[Tensor, "R"]:
    """Return the best token of each row, the lowest id in a tie."""
    return preference.argmax(dim=1)
