"""The same text through the models of a run on its way: opened one at a time, traced, and kept for a little while.

Everything here happens in the one thread in which all models of the server work.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sightline.errors import ModelFileError
from sightline.pipelines import Chat, Classifier, Generator, Pipeline, Translator
from sightline.run.folder import MODEL
from sightline.run.snapshots import pipeline_at, snapshots
from sightline.serving import Problem
from sightline.studio.runs_table import Stamp, stamp_of
from sightline.tracing.drawing import bytes_of

MOST_TOKENS = 200
MOST_MODEL_BYTES = 512 << 20
MOST_TRACE_BYTES = 64 << 20
CANDIDATES = 5
CANDIDATES_TO_SEARCH = 100
"""A model that does not write decides each time anew: what the last one chose is looked for among so many."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Question:
    """What the models of a run are asked."""

    step: int | None
    """That of a snapshot; None is the model that the run kept."""
    input: str
    to: str | None
    target: str | None
    """What is to be shown as it would be written; None lets the model write its own."""
    max_tokens: int


class Recent(Generic[Kept]):
    """What was made last, as far as it takes no more bytes than a bound together; the newest always stays."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.entries: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Kept], size: Callable[[Kept], int]) -> Kept:
        """Return what there is under a key, or make it."""
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key][0]
        made = make()
        self.entries[key] = (made, size(made))
        while len(self.entries) > 1 and sum(taken for _, taken in self.entries.values()) > self.most:
            self.entries.popitem(last=False)
        return made


class Lapse:
    """Answers for the snapshots of all runs."""

    def __init__(self) -> None:
        self.models: Recent[Pipeline] = Recent(MOST_MODEL_BYTES)
        self.traces: Recent[bytes] = Recent(MOST_TRACE_BYTES)

    def trace(self, folder: Path, question: Question) -> bytes:
        """Return what the model of a step does with a text, as the drawing modules read it."""
        marks = self.marks(folder, question.step)
        return self.traces.get((*marks, question), lambda: self._traced(marks, folder, question), len)

    def marks(self, folder: Path, step: int | None) -> tuple[Path, Stamp, int | None, Stamp]:
        """Return what tells a run, and one model of it, from another that took its place."""
        places = snapshots(folder)
        place = folder / MODEL if step is None else places.get(step, folder)
        first = places.get(0, folder)
        return folder, stamp_of(first / "config.json"), step, stamp_of(place / "config.json")

    def _traced(self, marks: tuple[Path, Stamp, int | None, Stamp], folder: Path, question: Question) -> bytes:
        like = next((model for key, (model, _) in self.models.entries.items() if key[:2] == marks[:2]), None)  # type: ignore[index]
        try:
            model = self.models.get(marks, lambda: pipeline_at(folder, question.step, like=like), bytes_in)
        except ModelFileError:
            raise Problem(404, "this snapshot cannot be opened, or no longer", code="snapshot_not_found") from None
        n_tokens = len(model.tokenizer.encode(question.input))
        if n_tokens > MOST_TOKENS:
            raise Problem(
                400, f"the text has {n_tokens:,} tokens; up to {MOST_TOKENS} are shown", param="input", code="too_long"
            )
        read: Any = question.input.split() if isinstance(model, Classifier) and model.per_word else question.input
        return bytes_of(model.trace(read, **options_for(model, question)))


def options_for(model: Pipeline, question: Question) -> dict[str, Any]:
    """Return what a trace is asked for."""
    options: dict[str, Any] = {"probes": ("*.weights",), "readout": False, "limit": MOST_TRACE_BYTES}
    if not isinstance(model, Translator | Chat | Generator):
        return {**options, "candidates": CANDIDATES_TO_SEARCH}
    options |= {"candidates": CANDIDATES, "target": question.target}
    options |= {"sample": False, "max_length": min(question.max_tokens, model.generation.max_length)}
    return {**options, "to": question.to} if isinstance(model, Translator) else options


def bytes_in(model: Pipeline) -> int:
    """Return how much memory the weights of a model take."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.model.parameters())
