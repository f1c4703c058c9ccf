"""A gate for model steps: the test decides what happens before which step."""

import threading
from collections.abc import Callable

import pytest

from sightline.serving.scheduling.jobs import RunningBatch

from .wire import PATIENCE


class Gate:
    """Blocks every step of every model; closed at first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changed = threading.Condition()
        self.is_open = self.is_reached = False
        self.permits = 0
        advance = RunningBatch.advance

        def advance_when_let(running: RunningBatch):
            self._pass()
            return advance(running)

        monkeypatch.setattr(RunningBatch, "advance", advance_when_let)

    def _pass(self) -> None:
        with self.changed:
            self.is_reached = True
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.is_open or self.permits, PATIENCE), "the gate stayed closed"
            self.permits = max(0, self.permits - 1)
            self.is_reached = False

    def until_reached(self) -> None:
        """Wait until a model is held before a step."""
        self._wait(lambda: self.is_reached and not self.permits)

    def step(self) -> None:
        """Let one step pass, and wait for the next."""
        self.until_reached()
        with self.changed:
            self.permits = 1
            self.changed.notify_all()
        self.until_reached()

    def open(self) -> None:
        """Let all steps pass."""
        with self.changed:
            self.is_open = True
            self.changed.notify_all()

    def close(self) -> None:
        """Block all steps again."""
        with self.changed:
            self.is_open = False

    def _wait(self, holds: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), "no model takes a step"
