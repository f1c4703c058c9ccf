"""Open a model folder as the pipeline for its task."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.config import one_of
from sightline.errors import InputError, ModelFileError
from sightline.model.registry import family_of, resolve
from sightline.runtime import DeviceName, choose_device
from sightline.tasks.registry import TASKS, families_for, infer_task

if TYPE_CHECKING:
    from sightline.bundle.contents import Bundle
    from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator

    class AnyPipeline(Translator, Chat, Generator, Filler, Classifier):  # type: ignore[misc]
        """What `load` returns, to type checkers and editors: which task a folder holds is known only when it is read.

        So all verbs are offered; the pipeline that is really there has those of its task.
        """


def load(folder: Path | str, *, device: DeviceName = "auto", engine: str = "torch") -> "AnyPipeline":
    """Open a model folder, a run folder or a built-in model (`en-de`) as the pipeline for its task.

    `device` is auto, cpu, cuda or mps; auto takes a GPU if there is one. `engine` generates the text of models that
    generate: torch, native (in C, with the same results), or native-int8 (weights rounded to 8 bits: faster still).
    """
    from sightline import bundle

    folder = Path(folder)
    pipeline: Any = pipeline_for(bundle.load(folder, device=choose_device(device)), folder=folder)
    if engine != "torch":
        if not pipeline.generates:
            raise InputError(f"this model generates no text: leave {engine} out", option="engine")
        pipeline.use_engine(engine)
    return pipeline  # type: ignore[no-any-return]


def pipeline_for(bundle: "Bundle", *, folder: Path | None = None) -> "Pipeline":
    """Return the pipeline for a model's task, or, where none is stated, for its interface and heads.

    A model that cannot do the task that its folder names is refused.
    """
    from sightline.bundle import find_model_folder

    config = bundle.task_config
    if problems := find_task_mismatches(bundle):
        place = Path("model") if folder is None else find_model_folder(folder)
        raise ModelFileError(place / "config.json", problems[0])
    task = TASKS[config.task] if config else infer_task(bundle.model.config)
    kind: type[Pipeline] = resolve(task.pipeline if task else "sightline.pipelines.pipeline:Pipeline")
    return kind(bundle, folder=folder)


def find_task_mismatches(bundle: "Bundle") -> list[str]:
    """Return why a model cannot do the task that its folder names."""
    task_config, config = bundle.task_config, bundle.model.config
    if task_config is None:
        return []
    if task_config.task not in TASKS:
        known = one_of(TASKS, task_config.task)
        return [f"has the task {task_config.task!r}, which this Sightline does not know: it knows {known}"]
    task = TASKS[task_config.task]
    found, possible = family_of(config).name, families_for(task)
    if found not in possible:
        return [f"has the task {task.name}, which needs the architecture {' or '.join(possible)}, not {found}"]
    return task.find_mismatches(task_config, config)
