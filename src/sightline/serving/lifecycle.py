"""Where in its life the server is: loading, answering, stopping."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Lifecycle:
    """What `/ready` tells, and what a stop has to wait for."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.loaded = loaded
        """Whether the models are there; whoever loads them sets it."""
        self.stopping = False
        """Whether the server was asked to stop: nothing new is begun."""
        self.expired = False
        """Whether the time to finish is over too: what still runs is cancelled."""
        self.working: set[asyncio.Task[object]] = set()

    @property
    def ready(self) -> bool:
        """Whether requests are welcome."""
        return self.loaded and not self.stopping

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the current task among those that a stop waits for."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is always handled by a task")
        self.working.add(task)
        try:
            yield
        finally:
            self.working.discard(task)

    def expire(self) -> None:
        """Cancel what has not finished in time."""
        self.expired = True
        for task in self.working:
            task.cancel()
