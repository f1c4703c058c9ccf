"""What a search knows of a model: a function from the newest token of each row to the scores of the next.

The state (a cache, a hidden vector, a list of ids) is handed in and out and is never looked into; a search only asks
for its rows in another order. Shapes here and in the whole folder: R rows, one for each live hypothesis; V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """Whatever a model keeps of the tokens it has seen, one row per hypothesis."""

    def reorder(self, rows: Int[Tensor, "R2"]) -> "State":
        """Return the state whose row i is the old row `rows[i]`; rows may be repeated, left out or permuted.

        A search calls this only when something changes, never with the identity.
        """
        ...


@dataclass(frozen=True)
class StepOutput:
    """The scores of the next token, the state that has seen the newest one, and where the step looked."""

    logits: Float[Tensor, "R V"]
    state: State
    attention: Float[Tensor, "R S"] | None = None


Step: TypeAlias = Callable[[Int[Tensor, "R"], State], StepOutput]
"""Takes the newest token of each row and the state that has seen all before it."""
