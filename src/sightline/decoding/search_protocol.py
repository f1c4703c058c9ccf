"""The protocol of a search: it says which rows continue with which tokens, and observes the logits that follow.

A search never calls a model. So it can run alone (`run_search`), step by step (`stream`), or share every step with
other searches (`ContinuousBatch`).
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.step import State, Step


@dataclass(frozen=True)
class NextInputs:
    """The inputs of the next step: rows of the state, in this order, each with its newest token; empty when done."""

    rows: Int[Tensor, "R2"] | None
    """None: all rows, in their current order."""
    newest: Int[Tensor, "R2"]

    @property
    def is_done(self) -> bool:
        """Whether the search is done."""
        return not len(self.newest)


@dataclass(frozen=True)
class StepResult:
    """The result of one step: the rows that were alive, the token of each, and the hypotheses it completed."""

    rows: list[int]
    tokens: list[int]
    log_probabilities: list[float]
    finished: dict[int, Hypothesis]


@runtime_checkable
class Search(Protocol):
    """One kind of decoding, running on the sentences of one request."""

    request: Request

    def begin(self) -> NextInputs:
        """Return the first inputs; the state has one row per sentence."""
        ...

    def observe(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> StepResult | None:
        """Process the logits of the last inputs; return the chosen tokens, or None if none are final yet."""
        ...

    def advance(self) -> NextInputs:
        """Return the next inputs; finished rows are dropped."""
        ...

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence so far, best first (samples: in the order drawn)."""
        ...


def is_identity(rows: Int[Tensor, "R2"], count: int) -> bool:
    """Tell whether these are all of `count` rows, in order."""
    return len(rows) == count and bool((rows.diff(prepend=rows.new_full((1,), -1)) == 1).all())


def run_search(search: Search, step: Step, state: State) -> list[list[Hypothesis]]:
    """Run a search to its end and return its results."""
    inputs = search.begin()
    while not inputs.is_done:
        state = state if inputs.rows is None else state.reorder(inputs.rows)
        output = step(inputs.newest, state)
        search.observe(output.logits, output.attention)
        inputs, state = search.advance(), output.state
    return search.hypotheses
