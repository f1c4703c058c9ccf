"""One run per folder: a run holds a lock on its folder, which the system releases when the process ends.

Folders that several runs share are written by one run at a time (`wait_for_lock`).

The lock is flock; the content of the file only says who holds it. The file is never removed: that would let a third run
lock a new file while a second waits for the old one. Systems without flock do not lock.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from sightline.errors import InputError, RefusedError, SightlineError
from sightline.text.strict_json import parse_object

try:
    import fcntl
except ImportError:  # not Unix
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "run.lock"
SHARED_FILE_NAME = ".turns.lock"
MAX_BYTES = 1000
FLAGS = os.O_RDWR | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock the folder for this run, or refuse at once, naming who holds it."""
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, FLAGS, 0o644)
    except OSError as error:
        raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    try:
        acquire(descriptor, folder)
        try:
            yield
        finally:
            with suppress(OSError):  # the lock is released anyway; a name left in the file would do no harm
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Wait for the lock of a shared folder and hold it; two runs must not encode one corpus at the same time.

    A folder that cannot be written is not locked.
    """
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context((folder / SHARED_FILE_NAME).open("a")), fcntl.LOCK_EX)
        yield


def acquire(descriptor: int, folder: Path) -> None:
    """Lock the open file and write the owner into it, over that of a killed run."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(
                f"{folder} is in use by {describe_holder(descriptor)}: "
                "wait until it ends, stop it, or choose another folder"
            ) from None
        except OSError as error:
            raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(" ", "seconds")}
    with suppress(OSError):  # a full disk: the lock holds without an owner, and the run will report the disk itself
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def describe_holder(descriptor: int) -> str:
    """Return who holds the lock, as far as the file tells."""
    try:
        entries = parse_object(os.pread(descriptor, MAX_BYTES, 0))
    except (InputError, OSError):  # it holds the lock but has not written its name yet
        return "another run"
    pid, host, since = (str(entries.get(key, "?"))[:80] for key in ("pid", "host", "since"))
    return f"another run (process {pid} on {host}, since {since})"
