"""Which checkpoints of a run are kept: list them, prune old ones, remove leftovers of a killed save."""

import os
import re
from contextlib import suppress
from pathlib import Path

from sightline.errors import SightlineError
from sightline.storage import fsync, remove_folder

NAME = re.compile(r"step-(\d{8,18})")


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def parse_step(path: Path) -> int:
    """Return the step of a checkpoint from its name."""
    return int(path.name.removeprefix("step-"))


def list_checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=parse_step)


def prune(folder: Path, *, keep_checkpoints: int, best_step: int | None) -> None:
    """Remove all checkpoints but the latest few and the best one; a failed removal is tried again later."""
    for path in list_checkpoints(folder)[:-keep_checkpoints]:
        if parse_step(path) != best_step:
            removed = path.with_name(f"{path.name}.tmp-gone")  # half removed, it must not look like a checkpoint
            with suppress(OSError):
                path.rename(removed)
                remove_folder(removed)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed save left behind; a checkpoint that it had moved aside is put back."""
    for old in folder.glob("step-*.tmp-old"):
        place = old.with_name(old.name.removesuffix(".tmp-old"))
        if not os.path.lexists(place):
            try:
                old.rename(place)
                fsync(folder)
            except OSError as error:
                raise SightlineError(f"could not rename {old} back to {place.name}: {error.strerror}") from error
    for leftover in folder.glob("step-*.tmp-*"):
        remove_folder(leftover)
