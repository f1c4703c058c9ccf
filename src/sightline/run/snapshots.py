"""The models of a run as they were on the way: one pipeline for each snapshot, and the model that was kept.

A snapshot holds weights alone. Tokenizer, purpose and decoding settings are those of the run, which they never change.
"""

from dataclasses import replace
from pathlib import Path

from sightline import bundle
from sightline.bundle.atomic import place_of
from sightline.errors import InputError
from sightline.pipelines import Pipeline, load, pipeline_for
from sightline.run.folder import MODEL, first_snapshot
from sightline.training.loop import SNAPSHOTS
from sightline.training.rotation import checkpoints, step_of


def snapshots(folder: Path) -> dict[int, Path]:
    """Return where the snapshots of a run lie, by step; step 0 is the untrained model."""
    return {step_of(path): path for path in checkpoints(folder / SNAPSHOTS)}


def has_kept_model(folder: Path) -> bool:
    """Tell whether a run has been validated, and has kept its best model."""
    return (place_of(folder / MODEL) / "config.json").is_file()


def pipeline_at(folder: Path, step: int | None, *, like: Pipeline | None = None) -> Pipeline:
    """Open the model of a run as it was at the step of a snapshot, or (None) the one that was kept.

    `like` is another model of the same run that is open already: what all of them share need not be read again.
    """
    if step is None:
        return load(folder / MODEL)
    found = snapshots(folder)
    if step not in found:
        steps = ", ".join(map(str, found)) or "none"
        raise InputError(f"there is no snapshot of step {step:,}: this run has {steps}")
    shared = like.bundle if like is not None else bundle.load(first_snapshot(folder))
    if step == 0 and like is None:
        return pipeline_for(shared)
    return pipeline_for(replace(shared, model=bundle.load(found[step]).model, card=""))
