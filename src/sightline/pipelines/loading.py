"""Open a model folder as the pipeline for its task."""

from pathlib import Path

from sightline.bundle import Bundle, TaskName
from sightline.bundle import load as load_bundle
from sightline.model import CausalLM, Model, Seq2Seq
from sightline.model.registry import interface_of
from sightline.pipelines.chat import Chat
from sightline.pipelines.classifier import Classifier
from sightline.pipelines.filler import Filler
from sightline.pipelines.generator import Generator
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.translator import Translator
from sightline.runtime import choose_device

PIPELINE_BY_TASK: dict[TaskName, type[Pipeline]] = {
    "translation": Translator,
    "chat": Chat,
    "language-model": Generator,
    "masked-language-model": Filler,
    "classification": Classifier,
}


def load(folder: Path | str, *, device: str = "auto") -> Pipeline:
    """Open a model folder or a run folder as the pipeline for its task.

    The device is auto (a GPU if there is one), cpu, cuda or mps.
    """
    return pipeline_for(load_bundle(folder, device=choose_device(device)), folder=Path(folder))


def pipeline_for(bundle: Bundle, *, folder: Path | None = None) -> Pipeline:
    """Return the pipeline for a model's task, or, where none is stated, for its architecture and heads."""
    pipeline_type = (
        PIPELINE_BY_TASK[bundle.task_config.task] if bundle.task_config else infer_pipeline_type(bundle.model)
    )
    return pipeline_type(bundle, folder=folder)


def infer_pipeline_type(model: Model) -> type[Pipeline]:
    """Choose a pipeline by architecture and heads."""
    interface = interface_of(model.config)
    if interface is Seq2Seq:
        return Translator
    if interface is CausalLM:
        return Generator
    heads = getattr(model.config, "heads", ())
    if "mlm" in heads:
        return Filler
    can_classify = {"sequence_classification", "token_classification"} & set(heads)
    return Classifier if can_classify else Pipeline
