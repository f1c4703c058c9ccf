"""The folder of a run, and the snapshots in it.

RUN/
    run.json          the recipe, the resolved settings, the outcome
    metrics.jsonl     losses and scores, one record per line
    model/            the best model so far: `sightline.load(RUN)` opens it
    checkpoints/      everything needed to resume
    snapshots/        step 0, and steps 1, 2, 4, 8, … if training.snapshots is set
    tensorboard/      TensorBoard events, with --tensorboard
    run.lock          held during the run
.encoded/             next to the runs: cache of encoded corpora and tokenizers
"""

from dataclasses import replace
from pathlib import Path

from sightline import bundle
from sightline.errors import InputError, RefusedError
from sightline.pipelines import Pipeline
from sightline.runtime import choose_device
from sightline.storage import RUN_LOCK, current_folder
from sightline.tasks import load, pipeline_for
from sightline.training.checkpoint import checkpoint_path, list_checkpoints, parse_step
from sightline.training.loop import SNAPSHOTS

ROOT = Path("runs")
MODEL, ENCODED, RUN_RECORD, FOLDS = "model", ".encoded", "run.json", "folds"


def is_run(folder: Path) -> bool:
    """Tell whether the folder holds a run."""
    return (folder / RUN_RECORD).exists()


def first_fold(folder: Path) -> Path:
    """Return the folder of the first fold: while only folds were trained, its record is that of the whole run."""
    return folder / FOLDS / "1"


def has_best_model(folder: Path) -> bool:
    """Tell whether a run has saved a best model, which happens at its first validation."""
    return (current_folder(folder / MODEL) / "config.json").is_file()


def choose_folder(name: str, out: Path | None, *, resume: bool) -> Path:
    """Return the folder of a run: `out`, else the first free of runs/NAME, runs/NAME-2, …; to resume, the last used."""
    if out is not None:
        if is_run(out) and not resume:
            raise RefusedError(f"{out} already holds a run: add --resume to continue it, or choose another --out")
        if resume and not (is_run(out) or is_run(first_fold(out))):
            raise RefusedError(f"{out} holds no run to resume")
        return out
    places = [ROOT / name, *(ROOT / f"{name}-{number}" for number in range(2, 10_000))]
    used = [place for place in places if is_run(place) or is_run(first_fold(place))]
    if resume:
        if not used:
            raise RefusedError(f"there is no run of {name} in {ROOT} to resume: leave --resume out, or set --out")
        return used[-1]
    return next(place for place in places if is_free(place))


def is_free(place: Path) -> bool:
    """Tell whether the folder is missing, or holds only the lock of a run that failed before it started."""
    return not place.exists() or {path.name for path in place.iterdir()} <= {RUN_LOCK}


def encoded_folder(folder: Path) -> Path:
    """Return the cache of encoded corpora that this run shares with its neighbors."""
    return folder.resolve().parent / ENCODED


def initial_snapshot(folder: Path) -> Path:
    """Return the path of the untrained model."""
    return checkpoint_path(folder / SNAPSHOTS, 0)


def list_snapshots(folder: Path) -> dict[int, Path]:
    """Return the paths of the snapshots of a run by step; step 0 is the untrained model.

    A snapshot holds weights only. Tokenizer, task config and decoding settings are those of the run.
    """
    return {parse_step(path): path for path in list_checkpoints(folder / SNAPSHOTS)}


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
    device = choose_device() if like is None else like.embedding_weight.device
    shared = like.bundle if like is not None else bundle.load(initial_snapshot(folder), device=device)
    if step == 0 and like is None:
        return pipeline_for(shared)
    return pipeline_for(replace(shared, model=bundle.load(found[step], device=device).model, card=""))
