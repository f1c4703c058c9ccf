"""Which pipeline fits a model."""

from pathlib import Path

from sightline.bundle import Bundle, Task
from sightline.bundle import load as load_bundle
from sightline.model import GPT, Model, Transformer
from sightline.pipelines.chat import Chat
from sightline.pipelines.classifier import Classifier
from sightline.pipelines.filler import Filler
from sightline.pipelines.generator import Generator
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.translator import Translator

BY_TASK: dict[Task, type[Pipeline]] = {
    "translation": Translator,
    "chat": Chat,
    "language-model": Generator,
    "masked-language-model": Filler,
    "classification": Classifier,
}


def load(folder: Path | str) -> Pipeline:
    """Open a model folder, or the folder of a run, as the pipeline that fits it."""
    return pipeline_for(load_bundle(folder), folder=Path(folder))


def pipeline_for(bundle: Bundle, *, folder: Path | None = None) -> Pipeline:
    """Return the pipeline for what a model was made for; where that is not said, for what it is able to do."""
    kind = BY_TASK[bundle.purpose.task] if bundle.purpose else kind_by_ability(bundle.model)
    return kind(bundle, folder=folder)


def kind_by_ability(model: Model) -> type[Pipeline]:
    """Return the pipeline for an architecture and its heads."""
    if isinstance(model, Transformer):
        return Translator
    if isinstance(model, GPT):
        return Generator
    if "masked_words" in model.config.heads:
        return Filler
    classes = {"sequence_classes", "token_classes"} & set(model.config.heads)
    return Classifier if classes else Pipeline
