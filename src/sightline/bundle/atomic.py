"""Replace a folder so that a kill at any instant leaves the old one or the new one, complete.

    1  write NAME.tmp-new, and force it to the disk
    2  rename NAME to NAME.tmp-old          (if there was one)
    3  rename NAME.tmp-new to NAME
    4  remove NAME.tmp-old

Between 2 and 3 there is no NAME: whoever reads asks `place_of`, and is led to NAME.tmp-old, which is complete then,
as it is removed only while NAME is there. What a kill leaves behind, the next save removes.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, then put it in the place of `folder`."""
    new, old = beside(folder, "new"), beside(folder, "old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove(new)
    new.mkdir()
    try:
        write(new)
        for path in sorted(new.iterdir()):
            force_to_disk(path)
        force_to_disk(new)
        put_in_place(new, folder, old)
    except BaseException:
        remove(new)
        raise
    remove(old)


def put_in_place(new: Path, folder: Path, old: Path) -> None:
    """Swap the folders; if that fails half-way, swap back."""
    replaced = os.path.lexists(folder)
    if replaced:
        remove(old)
        folder.rename(old)
    try:
        new.rename(folder)
        force_to_disk(folder.parent)
    except BaseException:
        if replaced and not os.path.lexists(folder):
            old.rename(folder)
        raise


def place_of(folder: Path) -> Path:
    """Return where the folder's contents are: in it, or beside it if a save was killed between its two renames."""
    try:
        folder = folder.resolve()  # the old one lies beside the folder itself, not beside a link to it
    except (OSError, RuntimeError, ValueError):
        return folder  # whoever opens it will say what is wrong with it
    old = beside(folder, "old") if folder.name else folder
    return old if not os.path.lexists(folder) and os.path.lexists(old) else folder


def beside(folder: Path, part: str) -> Path:
    """Return the temporary name of the new or the old folder."""
    return folder.with_name(f"{folder.name}.tmp-{part}")


def remove(folder: Path) -> None:
    """Remove a folder and what is in it; what cannot be removed now is left for the next save."""
    shutil.rmtree(folder, ignore_errors=True)


def force_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, would survive a power cut."""
    if os.name != "posix" and path.is_dir():
        return  # elsewhere a folder cannot be opened, and its entries are written through
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
