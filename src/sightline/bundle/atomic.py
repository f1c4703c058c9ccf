"""Replace a folder atomically: a kill at any instant leaves the old one or the new one, complete.

    1  write NAME.tmp-new, and sync it to disk
    2  rename NAME to NAME.tmp-old          (if there was one)
    3  rename NAME.tmp-new to NAME
    4  remove NAME.tmp-old

Between 2 and 3 there is no NAME: `current_folder` then returns NAME.tmp-old, which is complete, as it is removed only
while NAME exists. The next save removes the leftovers of a killed one.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, then replace `folder` by it."""
    new, old = temporary_folder(folder, "new"), temporary_folder(folder, "old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_folder(new)
    new.mkdir()
    try:
        write(new)
        for path in sorted(new.iterdir()):
            fsync(path)
        fsync(new)
        swap_folders(new, folder, old)
    except BaseException:
        remove_folder(new)
        raise
    remove_folder(old)


def swap_folders(new: Path, folder: Path, old: Path) -> None:
    """Swap the folders; if that fails halfway, swap back."""
    replaced = os.path.lexists(folder)
    if replaced:
        remove_folder(old)
        folder.rename(old)
    try:
        new.rename(folder)
        fsync(folder.parent)
    except BaseException:
        if replaced and not os.path.lexists(folder):
            old.rename(folder)
        raise


def current_folder(folder: Path) -> Path:
    """Return the folder with the contents: itself, or its old version if a save was killed between the renames."""
    try:
        folder = folder.resolve()  # the old one is next to the folder itself, not next to a symlink to it
    except (OSError, RuntimeError, ValueError):
        return folder  # opening it will report what is wrong
    old = temporary_folder(folder, "old") if folder.name else folder
    return old if not os.path.lexists(folder) and os.path.lexists(old) else folder


def temporary_folder(folder: Path, part: str) -> Path:
    """Return the temporary path of the new or old folder."""
    return folder.with_name(f"{folder.name}.tmp-{part}")


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents; anything that cannot be removed is left for the next save."""
    shutil.rmtree(folder, ignore_errors=True)


def fsync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, would survive a power failure."""
    if os.name != "posix" and path.is_dir():
        return  # Windows cannot open folders, and writes their entries through
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
