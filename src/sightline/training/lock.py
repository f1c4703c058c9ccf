"""One run a folder: whoever trains holds a lock on it, which the system lets go of when the process ends, however.

What several runs share, they fill one after the other (`taking_turns`).

The lock is the system's (flock); what is written in the file only tells others who holds it. The file stays behind:
removing it would let a third run lock a new one while a second waits for the old. Systems without flock do not lock.
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
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "run.lock"
TURNS = ".turns.lock"
MOST_BYTES = 1000
FLAGS = os.O_RDWR | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this run, or refuse at once, naming who holds it."""
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, FLAGS, 0o644)
    except OSError as error:
        raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    try:
        take(descriptor, folder)
        try:
            yield
        finally:
            with suppress(OSError):  # nobody holds it now; a name left in the file would do no harm
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def taking_turns(folder: Path) -> Iterator[None]:
    """Wait until nobody else is filling the folder; two runs over one corpus would spoil each other's encoding of it.

    Where nothing can be written there is nothing to wait for.
    """
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context((folder / TURNS).open("a")), fcntl.LOCK_EX)
        yield


def take(descriptor: int, folder: Path) -> None:
    """Lock the open file and sign it; a name that a killed run left in it is overwritten."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(
                f"{folder} is in use by {holder(descriptor)}: wait until it ends, stop it, or choose another folder"
            ) from None
        except OSError as error:
            raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    name = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(" ", "seconds")}
    with suppress(OSError):  # a full disk: the lock holds without a name, and the run will say so itself
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(name).encode(), 0)


def holder(descriptor: int) -> str:
    """Say who holds the lock, as far as the file tells."""
    try:
        entries = parse_object(os.pread(descriptor, MOST_BYTES, 0))
    except (InputError, OSError):  # it has taken the lock and not yet signed
        return "another run"
    pid, host, since = (str(entries.get(key, "?"))[:80] for key in ("pid", "host", "since"))
    return f"another run (process {pid} on {host}, since {since})"
