"""What pipelines and serving may ask of an engine: to read prompts, to predict next tokens, to stop.

An engine knows ids and no text. Its states are its own: a cache of keys and values, or a number that stands for one.
Searches (`sightline.decoding`) are given its `step`, so none of them knows which engine runs.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from sightline.decoding import Cancellation, Hypothesis, Request, SharedState, State, StepNeeds, StepOutput


@runtime_checkable
class Engine(Protocol):
    """Reads prompts, then predicts token after token for all rows of a state at once.

    Every call is complete by itself: no gradients, and the model, if it has modes, in evaluation mode only during it.
    """

    @property
    def device(self) -> torch.device:
        """Where the ids of a step are expected, and its logits or candidates are."""
        ...

    @property
    def cancellation(self) -> Cancellation:
        """What `cancel` cancels: given to every search that begins now."""
        ...

    def prefill(self, prompts: Sequence[Sequence[int]], /) -> SharedState:
        """Read what comes before the first token that is fed: sources, or contexts; return a state, one row each.

        States can `reorder` their rows (beams change places, texts finish) and `join` the rows of another state.
        """
        ...

    def step(self, ids: Int[Tensor, "R"], state: State, needs: StepNeeds, /) -> StepOutput:
        """Feed the newest token of each row; return what the next one may be and the state after it.

        Where `needs.candidates` allows, the output may hold that many best candidates instead of the logits.
        """
        ...

    def cancel(self) -> None:
        """End all searches in progress before their next step (`SearchCancelledError`); any thread may call this.

        Searches that begin afterwards are not affected.
        """
        ...


@runtime_checkable
class SearchEngine(Engine, Protocol):
    """An engine with a search of its own, which needs nobody between two steps."""

    def search(self, prompts: Sequence[Sequence[int]], request: Request, /) -> list[list[Hypothesis]] | None:
        """Return what `sightline.decoding.search` would return; None if the request asks for what it does not know.

        However many texts there are, they share the work: as one is done, another takes its place.
        """
        ...
