"""Who waits for another is noticed, without looking at a clock."""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sightline import storage

LONG = 120.0
"""Seconds after which a test that hangs is ended."""


class Fcntl:
    """The system's locks, of which somebody hears before one is waited for."""

    LOCK_EX, LOCK_NB = fcntl.LOCK_EX, fcntl.LOCK_NB

    def __init__(self) -> None:
        self.is_waited_for = threading.Event()

    def flock(self, file: object, operation: int) -> None:
        """Try first without waiting: one that gets the lock waits for nobody."""
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)  # type: ignore[arg-type]
        except BlockingIOError:
            if operation & fcntl.LOCK_NB:
                raise
            self.is_waited_for.set()
            fcntl.flock(file, operation)  # type: ignore[arg-type]


@contextmanager
def waiting_noticed() -> Iterator[threading.Event]:
    """Lend an event that comes when somebody begins to wait for a folder that another holds."""
    noticed = Fcntl()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "fcntl", noticed)
        yield noticed.is_waited_for
