"""The checkpoints of a run: which there are, which of them stay, and what a killed save left beside them."""

import os
import re
from contextlib import suppress
from pathlib import Path

from sightline.bundle.atomic import force_to_disk, remove
from sightline.errors import SightlineError

NAME = re.compile(r"step-(\d{8,18})")


def place_for(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step lies."""
    return folder / f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Return the step of a checkpoint from its name."""
    return int(path.name.removeprefix("step-"))


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def rotate(folder: Path, *, keep_last: int, best_step: int | None) -> None:
    """Remove all checkpoints but the newest few and the best one; what cannot be removed now is tried again later."""
    for path in checkpoints(folder)[:-keep_last]:
        if step_of(path) != best_step:
            gone = path.with_name(f"{path.name}.tmp-gone")  # half removed, it must not look like a checkpoint
            with suppress(OSError):
                path.rename(gone)
                remove(gone)


def clean(folder: Path) -> None:
    """Remove what a killed save left behind; what it had only moved aside is put back."""
    for old in folder.glob("step-*.tmp-old"):
        place = old.with_name(old.name.removesuffix(".tmp-old"))
        if not os.path.lexists(place):
            try:
                old.rename(place)
                force_to_disk(folder)
            except OSError as error:
                raise SightlineError(f"could not rename {old} back to {place.name}: {error.strerror}") from error
    for leftover in folder.glob("step-*.tmp-*"):
        remove(leftover)
