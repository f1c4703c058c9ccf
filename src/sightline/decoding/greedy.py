"""The likeliest token at every step."""

from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.step import State, Step
from sightline.decoding.walk import texts, walk


def likeliest(preference: Float[Tensor, "R V"], _rows: list[int]) -> Int[Tensor, "R"]:
    """Return the best token of each row, the lowest id in a tie."""
    return preference.argmax(dim=1)


def search_greedily(step: Step, state: State, request: Request) -> list[list[Hypothesis]]:
    """Return one hypothesis per sentence."""
    return [[text] for text in texts(walk(step, state, request, likeliest))]
