"""The snapshots of a run, each opened as a pipeline, and its best model.

A snapshot holds weights only. Tokenizer, task config and decoding settings are those of the run.
"""

from dataclasses import replace
from pathlib import Path

from sightline import bundle
from sightline.errors import InputError
from sightline.pipelines import Pipeline, load, pipeline_for
from sightline.run.folder import MODEL, initial_snapshot
from sightline.storage import current_folder
from sightline.training.loop import SNAPSHOTS
from sightline.training.retention import list_checkpoints, parse_step


def list_snapshots(folder: Path) -> dict[int, Path]:
    """Return the paths of the snapshots of a run by step; step 0 is the untrained model."""
    return {parse_step(path): path for path in list_checkpoints(folder / SNAPSHOTS)}


def has_best_model(folder: Path) -> bool:
    """Tell whether a run has saved a best model, which happens at its first validation."""
    return (current_folder(folder / MODEL) / "config.json").is_file()


def pipeline_at(folder: Path, step: int | None, *, like: Pipeline | None = None) -> Pipeline:
    """Open the snapshot of a step, or the best model if `step` is None.

    `like` is an open model of the same run, whose tokenizer and settings need not be read again.
    """
    if step is None:
        return load(folder / MODEL)
    found = list_snapshots(folder)
    if step not in found:
        steps = ", ".join(map(str, found)) or "none"
        raise InputError(f"there is no snapshot of step {step:,}: this run has {steps}")
    shared = like.bundle if like is not None else bundle.load(initial_snapshot(folder))
    if step == 0 and like is None:
        return pipeline_for(shared)
    return pipeline_for(replace(shared, model=bundle.load(found[step]).model, card=""))
