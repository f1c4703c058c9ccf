"""Where a run lives.

RUN/
run.json          the recipe, what was really done, how it ended
metrics.jsonl     losses and scores, a line each
model/            the best model so far: `sightline.load(RUN)` opens it
checkpoints/      all that is needed to go on
snapshots/        step 0, and steps 1, 2, 4, 8, … if asked for
tensorboard/      the curves, if asked for
run.lock          held while the run goes on
.encoded/           beside the runs: corpora and tokenizers, found again by content
"""

from pathlib import Path

from sightline.errors import RefusedError
from sightline.training.lock import FILE_NAME as LOCK
from sightline.training.rotation import place_for

ROOT = Path("runs")
MODEL, ENCODED, JOURNAL = "model", ".encoded", "run.json"


def encoded_beside(folder: Path) -> Path:
    """Return where the encoded corpora of this run and its neighbours are."""
    return folder.resolve().parent / ENCODED


def first_snapshot(folder: Path) -> Path:
    """Return where the untrained model lies."""
    return place_for(folder / "snapshots", 0)


def is_run(folder: Path) -> bool:
    """Tell whether a run has begun in this folder."""
    return (folder / JOURNAL).exists()


def folder_for(name: str, out: Path | None, *, resume: bool) -> Path:
    """Return the folder of a run: the one given, else runs/NAME, or the next that is free; to resume, the last used."""
    if out is not None:
        if is_run(out) and not resume:
            raise RefusedError(f"{out} holds a run already: add --resume to go on with it, or choose another --out")
        if resume and not is_run(out):
            raise RefusedError(f"{out} holds no run to go on with")
        return out
    places = [ROOT / name, *(ROOT / f"{name}-{number}" for number in range(2, 10_000))]
    used = [place for place in places if is_run(place)]
    if resume:
        if not used:
            raise RefusedError(f"there is no run of {name} in {ROOT} to go on with: leave --resume out, or say --out")
        return used[-1]
    return next(place for place in places if is_free(place))


def is_free(place: Path) -> bool:
    """Tell whether nothing is there, or only what an attempt left that ended before its run began."""
    return not place.exists() or {path.name for path in place.iterdir()} <= {LOCK}
