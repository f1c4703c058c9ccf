"""The folder of a run.

RUN/
run.json          the recipe, the resolved settings, the outcome
metrics.jsonl     losses and scores, one record per line
model/            the best model so far: `sightline.load(RUN)` opens it
checkpoints/      everything needed to resume
snapshots/        step 0, and steps 1, 2, 4, 8, … if training.snapshots is set
tensorboard/      TensorBoard events, with --tensorboard
run.lock          held during the run
.encoded/           next to the runs: cache of encoded corpora and tokenizers
"""

from pathlib import Path

from sightline.errors import RefusedError
from sightline.storage import RUN_LOCK
from sightline.training.retention import checkpoint_path

ROOT = Path("runs")
MODEL, ENCODED, RUN_RECORD = "model", ".encoded", "run.json"


def encoded_folder(folder: Path) -> Path:
    """Return the cache of encoded corpora that this run shares with its neighbors."""
    return folder.resolve().parent / ENCODED


def initial_snapshot(folder: Path) -> Path:
    """Return the path of the untrained model."""
    return checkpoint_path(folder / "snapshots", 0)


def is_run(folder: Path) -> bool:
    """Tell whether the folder holds a run."""
    return (folder / RUN_RECORD).exists()


def choose_folder(name: str, out: Path | None, *, resume: bool) -> Path:
    """Return the folder of a run: `out`, else the first free of runs/NAME, runs/NAME-2, …; to resume, the last used."""
    if out is not None:
        if is_run(out) and not resume:
            raise RefusedError(f"{out} already holds a run: add --resume to continue it, or choose another --out")
        if resume and not is_run(out):
            raise RefusedError(f"{out} holds no run to resume")
        return out
    places = [ROOT / name, *(ROOT / f"{name}-{number}" for number in range(2, 10_000))]
    used = [place for place in places if is_run(place)]
    if resume:
        if not used:
            raise RefusedError(f"there is no run of {name} in {ROOT} to resume: leave --resume out, or set --out")
        return used[-1]
    return next(place for place in places if is_free(place))


def is_free(place: Path) -> bool:
    """Tell whether the folder is missing, or holds only the lock of a run that failed before it started."""
    return not place.exists() or {path.name for path in place.iterdir()} <= {RUN_LOCK}
