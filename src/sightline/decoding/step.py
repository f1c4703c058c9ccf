"""The step function: all that a search knows of a model, from the newest token of each row to the logits of the next.

The state (a cache, a hidden vector, a list of ids) is passed in and out and is opaque; a search only reorders its rows.
Shapes here and in the whole package: R rows, one for each live hypothesis; V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """A model's state after the tokens it has seen, one row per hypothesis."""

    def reorder(self, rows: Int[Tensor, "R2"]) -> "State":
        """Return the state whose row i is the old row `rows[i]`; rows may be repeated, dropped or permuted.

        A search calls this only when something changes, never with the identity.
        """
        ...


@dataclass(frozen=True)
class StepOutput:
    """The logits of the next token, the state after the newest one, and the attention to the source, if any."""

    logits: Float[Tensor, "R V"]
    state: State
    attention: Float[Tensor, "R S"] | None = None


Step: TypeAlias = Callable[[Int[Tensor, "R"], State], StepOutput]
"""Takes the newest token of each row and the state after all tokens before it."""
