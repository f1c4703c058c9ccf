"""Open the files of a model folder: regular files only, all from the same save, with bounded reads."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path

from sightline.bundle.atomic import current_folder
from sightline.bundle.file_signatures import sniff
from sightline.errors import ModelFileError

FILE_NAMES = (
    "config.json", "model.safetensors", "tokenizer.json", "target_tokenizer.json", "generation.json", "words.txt",
    "README.md",
)  # fmt: skip
ATTEMPTS = 10
MAX_CARD_BYTES = 1 << 20

# Never block on a pipe, never follow a symlink out of the folder.
FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


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


def open_regular(path: Path) -> FileIO | None:
    """Open a file for reading, or return None if it does not exist; refuse anything but a regular file."""
    try:
        descriptor = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise ModelFileError(repr(str(path)), "is not a valid file name") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelFileError(path, "is a symbolic link: a model folder must contain the file itself") from None
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise ModelFileError(path, f"is {KINDS.get(kind, 'something else')}, not a file")
    return FileIO(descriptor, "rb")


def read_limited(file: FileIO, path: Path, *, max_bytes: int) -> bytes:
    """Return the contents of a file that must not have more than `max_bytes`, nor be of another format."""
    data = read_bytes(file, path, max_bytes=max_bytes)
    if kind := sniff(data[:64]):
        raise ModelFileError(path, f"is {kind}")
    return data


def read_bytes(file: FileIO, path: Path, *, max_bytes: int) -> bytes:
    """Return the contents of a file that must not have more than `max_bytes`."""
    if (size := os.fstat(file.fileno()).st_size) > max_bytes:
        raise ModelFileError(path, f"has {size:,} bytes; the maximum is {max_bytes:,}")
    data = bytearray()
    try:
        while chunk := file.read(max_bytes + 1 - len(data)):
            data += chunk
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise ModelFileError(path, f"grew beyond {max_bytes:,} bytes while being read")
    return bytes(data)


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
