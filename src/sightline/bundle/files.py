"""Open the files of a model folder, all from the same save, and find the folder."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path

from sightline.errors import ModelFileError
from sightline.storage import current_folder, open_regular

FILE_NAMES = (
    "config.json", "model.safetensors", "tokenizer.json", "target_tokenizer.json", "generation.json", "words.txt",
    "README.md",
)  # fmt: skip
ATTEMPTS = 10
MAX_CARD_BYTES = 1 << 20


@contextmanager
def open_files(folder: Path) -> Iterator[dict[str, FileIO]]:
    """Open all files of a model that exist, all from the same save, even while another save is replacing them."""
    for _ in range(ATTEMPTS):
        current = current_folder(folder)
        before = folder_identity(current)
        with ExitStack() as stack:
            files = {name: stack.enter_context(file) for name in FILE_NAMES if (file := open_regular(current / name))}
            if before is not None and folder_identity(current) == before and current_folder(folder) == current:
                yield files
                return
    raise ModelFileError(folder, explain_absence(folder))


def find_model_folder(folder: Path) -> Path:
    """Return the folder of the model: `model` of a run folder, else the folder itself."""
    inner = folder / "model"
    has_config = [os.path.lexists(current_folder(path) / "config.json") for path in (folder, inner)]
    return inner if has_config == [False, True] else folder


def read_card(file: FileIO, path: Path) -> str:
    """Return the beginning of a README, whatever it contains: it is only for readers."""
    try:
        return (file.read(MAX_CARD_BYTES) or b"").decode("utf-8", errors="replace")
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None


def folder_identity(folder: Path) -> tuple[int, int, int] | None:
    """Return values that distinguish a folder from its replacement."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns) if stat.S_ISDIR(status.st_mode) else None


def explain_absence(folder: Path) -> str:
    """Return why a model folder cannot be read."""
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return "no such model folder"
    except ValueError:
        return "is not a valid folder name"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is being replaced faster than it can be read: try again" if is_folder else "is a file, not a model folder"
