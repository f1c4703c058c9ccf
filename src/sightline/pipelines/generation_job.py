"""A generation request, prepared up to the model's first step.

A pipeline's own calls prefill, search and decode at once. The server, where many clients share a model, takes these
apart: jobs that arrive at any time are prefilled together (`GenerativePipeline.prefill`) and searched together
(`decoding.ContinuousBatch`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sightline.decoding import DecodingSettings, Hypothesis, Search, SharedState, Step
from sightline.pipelines.detokenizer import IncrementalDetokenizer
from sightline.pipelines.generation import Generation
from sightline.pipelines.text_streamer import TextStreamer


@dataclass(frozen=True)
class GenerationJob:
    """One text to generate, or several alternatives of it."""

    ids: Sequence[int]
    """Source or prompt ids, to be prefilled."""
    search: Search
    """The search that chooses the tokens, not started."""
    settings: DecodingSettings
    make_detokenizer: Callable[[], IncrementalDetokenizer]
    """Creates the detokenizer of one result."""
    build_generation: Callable[[Hypothesis], Generation]

    @property
    def n_rows(self) -> int:
        """Maximum number of batch rows it needs."""
        return max(self.settings.beam_size, self.settings.n_best)

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens it generates."""
        return self.settings.max_new_tokens * self.settings.n_best

    def create_streamer(self) -> TextStreamer:
        """Return a streamer for one result, before its first token."""
        return TextStreamer(self.make_detokenizer(), self.settings)

    def results(self) -> list[Generation]:
        """Return the generated texts, best first (in order, when sampled)."""
        return [self.build_generation(hypothesis) for hypothesis in self.search.hypotheses[0]]


@runtime_checkable
class GenerativePipeline(Protocol):
    """A pipeline that generates text."""

    def inference_mode(self) -> AbstractContextManager[None]:
        """Switch the model to evaluation mode without gradients, and back afterwards."""
        ...

    @property
    def step(self) -> Step:
        """The model's decoding step."""
        ...

    def prefill(self, ids: Sequence[Sequence[int]], /) -> SharedState:
        """Return the model's state after it has read these ids, one row each."""
        ...
