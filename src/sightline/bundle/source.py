"""Open the files of a model folder: regular files only, all of the same save, and never more than a bound is read."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path

from sightline.bundle.atomic import place_of
from sightline.bundle.disguise import real_kind
from sightline.errors import ModelFileError

FILE_NAMES = (
    "config.json", "model.safetensors", "tokenizer.json", "target_tokenizer.json", "generation.json", "words.txt",
    "README.md",
)  # fmt: skip
ATTEMPTS = 10
LONGEST_CARD = 1 << 20

# Never wait for the other end of a pipe, never follow a link out of the folder.
FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened_files(folder: Path) -> Iterator[dict[str, FileIO]]:
    """Open every file of a model that is there, all from the same save, even while another is being put in place."""
    for _ in range(ATTEMPTS):
        place = place_of(folder)
        before = identity(place)
        with ExitStack() as stack:
            files = {name: stack.enter_context(file) for name in FILE_NAMES if (file := open_regular(place / name))}
            if before is not None and identity(place) == before and place_of(folder) == place:
                yield files
                return
    raise ModelFileError(folder, absence(folder))


def model_place(folder: Path) -> Path:
    """Return the folder that holds the model: of a run its `model`, else the folder itself."""
    inside = folder / "model"
    holds_one = [os.path.lexists(place_of(place) / "config.json") for place in (folder, inside)]
    return inside if holds_one == [False, True] else folder


def open_regular(path: Path) -> FileIO | None:
    """Open a file for reading, or return None where there is none; refuse everything that is not a regular file."""
    try:
        descriptor = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise ModelFileError(repr(str(path)), "is not the name of a file") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelFileError(path, "is a symbolic link: a model folder must hold the file itself") from None
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise ModelFileError(path, f"is {KINDS.get(kind, 'something else')}, not a file")
    return FileIO(descriptor, "rb")


def read_all(file: FileIO, path: Path, *, most: int) -> bytes:
    """Return the contents of a file that must not have more than `most` bytes, nor be of another kind."""
    data = read_bytes(file, path, most=most)
    if kind := real_kind(data[:64]):
        raise ModelFileError(path, f"is {kind}")
    return data


def read_bytes(file: FileIO, path: Path, *, most: int) -> bytes:
    """Return the contents of a file that must not have more than `most` bytes."""
    if (size := os.fstat(file.fileno()).st_size) > most:
        raise ModelFileError(path, f"has {size:,} bytes; more than {most:,} are not read")
    data = bytearray()
    try:
        while chunk := file.read(most + 1 - len(data)):
            data += chunk
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise ModelFileError(path, f"grew beyond {most:,} bytes while it was read")
    return bytes(data)


def read_card(file: FileIO, path: Path) -> str:
    """Return the beginning of a README, whatever it is: nothing but a reader's understanding depends on it."""
    try:
        return (file.read(LONGEST_CARD) or b"").decode("utf-8", errors="replace")
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None


def identity(place: Path) -> tuple[int, int, int] | None:
    """Return what tells a folder from the one that replaces it."""
    try:
        status = place.stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns) if stat.S_ISDIR(status.st_mode) else None


def absence(folder: Path) -> str:
    """Say why there is no model folder to be read."""
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such model folder"
    except ValueError:
        return "is not the name of a folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is replaced faster than it can be read: try again" if is_folder else "is a file, not a model folder"
