"""A text to be written, with all that must be known before a model takes its first step for it.

A pipeline's own calls read, search and write in one go. Whoever lets many people share a model (the server) takes
these apart: tasks of any time and kind are read together (`Author.prefilled`) and searched for together
(`decoding.Together`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sightline.decoding import DecodingSettings, Hypothesis, Search, SharedState, Step
from sightline.pipelines.spelling import Speller
from sightline.pipelines.stream import Unfolding
from sightline.pipelines.writing import Writing


@dataclass(frozen=True)
class Task:
    """One text to be written, or several alternatives of it."""

    ids: Sequence[int]
    """What the model reads first."""
    search: Search
    """What chooses the tokens, not begun."""
    settings: DecodingSettings
    spell: Callable[[], Speller]
    """Makes what turns the chosen tokens into text."""
    write: Callable[[Hypothesis], Writing]

    @property
    def n_rows(self) -> int:
        """Rows of a batch that it takes up, at most."""
        return max(self.settings.beam, self.settings.n_best)

    @property
    def n_most(self) -> int:
        """Tokens that are written, at most."""
        return self.settings.max_length * self.settings.n_best

    def unfolding(self) -> Unfolding:
        """Return a text of this task before its first token."""
        return Unfolding(self.spell(), self.settings)

    def results(self) -> list[Writing]:
        """Return what was written, best first (or as drawn)."""
        return [self.write(hypothesis) for hypothesis in self.search.hypotheses[0]]


@runtime_checkable
class Author(Protocol):
    """A pipeline that writes."""

    def at_work(self) -> AbstractContextManager[None]:
        """Let the model be at work for a while."""
        ...

    @property
    def step(self) -> Step:
        """What takes a step of the model."""
        ...

    def prefilled(self, ids: Sequence[Sequence[int]], /) -> SharedState:
        """Return the state of a model that has read these, a row each."""
        ...
