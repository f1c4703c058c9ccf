"""What a search is to whoever drives it: it says which rows go on with which tokens, and is told what scores follow.

A search never calls a model. So one may be driven to its end by itself (`drive`), be watched step by step (`stream`),
or share every step with others that came earlier or later (`together`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.step import State, Step


@dataclass(frozen=True)
class Move:
    """What a search wants next: these rows of its state in this order, each with its newest token; none at its end."""

    rows: Int[Tensor, "R2"] | None
    """None: all that there are, as they stand."""
    newest: Int[Tensor, "R2"]

    @property
    def is_last(self) -> bool:
        """Whether the search is done."""
        return not len(self.newest)


@dataclass(frozen=True)
class Stride:
    """What one step did: the rows that were alive, the token each got, and the texts that are complete with it."""

    rows: list[int]
    tokens: list[int]
    log_probabilities: list[float]
    finished: dict[int, Hypothesis]


@runtime_checkable
class Search(Protocol):
    """One way of decoding, at work on the sentences of one request."""

    request: Request

    def begin(self) -> Move:
        """Return the first move; the state has one row a sentence."""
        ...

    def take(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> Stride | None:
        """Take the scores that follow the last move; return what became certain, None where nothing can be yet."""
        ...

    def go_on(self, leaving: Collection[int] = ()) -> Move:
        """Return the next move; rows that are `leaving` are not continued."""
        ...

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence so far, best first (or as drawn)."""
        ...


def unchanged(rows: Int[Tensor, "R2"], count: int) -> bool:
    """Tell whether these are all of `count` rows, as they stand."""
    return len(rows) == count and bool((rows.diff(prepend=rows.new_full((1,), -1)) == 1).all())


def drive(search: Search, step: Step, state: State) -> list[list[Hypothesis]]:
    """Carry a search out by itself and return its results."""
    move = search.begin()
    while not move.is_last:
        state = state if move.rows is None else state.reorder(move.rows)
        output = step(move.newest, state)
        search.take(output.logits, output.attention)
        move, state = search.go_on(), output.state
    return search.hypotheses
