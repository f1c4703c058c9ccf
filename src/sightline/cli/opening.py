"""Open a model for one kind of work, or say which command it is for."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline

    Kind = TypeVar("Kind", bound=Pipeline)
else:
    Kind = TypeVar("Kind")

COMMANDS = {
    "Translator": "translate",
    "Chat": "chat",
    "Generator": "generate",
    "Filler": "fill",
    "Classifier": "classify",
}
"""By the name of the pipeline."""


def opened(folder: Path, kind: type[Kind]) -> Kind:
    """Return the pipeline of a model folder, which must be of this kind; one of no stated purpose may become so."""
    from sightline.pipelines import load

    pipeline = load(folder)
    if isinstance(pipeline, kind):
        return pipeline
    if pipeline.purpose is None and isinstance(pipeline.model, kind.takes):
        return kind(pipeline.bundle, folder=pipeline.folder)
    fitting = COMMANDS.get(type(pipeline).__name__, "embed")
    raise RefusedError(
        f"{folder}: this model is not one for sightline {COMMANDS[kind.__name__]}: use sightline {fitting}"
    )
