"""Open a model as the pipeline a command needs, or name the command it is for."""

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
"""The command of each pipeline, by class name."""


def open_pipeline(folder: Path, kind: type[Kind]) -> Kind:
    """Open a model folder as this kind of pipeline; a model without a stated task may become any kind it supports."""
    from sightline.pipelines import load

    pipeline = load(folder)
    if isinstance(pipeline, kind):
        return pipeline
    if pipeline.task_config is None and isinstance(pipeline.model, kind.supported_models):
        return kind(pipeline.bundle, folder=pipeline.folder)
    command = COMMANDS.get(type(pipeline).__name__, "embed")
    raise RefusedError(f"{folder}: this model is not for sightline {COMMANDS[kind.__name__]}: use sightline {command}")
