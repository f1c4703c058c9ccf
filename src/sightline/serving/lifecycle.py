"""The lifecycle of the server: loading, ready, stopping."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Lifecycle:
    """The state that `/ready` reports, and the requests that a shutdown waits for."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.loaded = loaded
        """Whether the models are loaded."""
        self.stopping = False
        """Whether the server was asked to stop: new requests are refused."""
        self.expired = False
        """Whether the shutdown timeout is over too: running requests are cancelled."""
        self.working: set[asyncio.Task[object]] = set()

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self.loaded and not self.stopping

    @contextmanager
    def track(self) -> Iterator[None]:
        """Add the current task to those that a shutdown waits for."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request must be handled by an asyncio task")
        self.working.add(task)
        try:
            yield
        finally:
            self.working.discard(task)

    def expire(self) -> None:
        """Cancel the requests that have not finished in time."""
        self.expired = True
        for task in self.working:
            task.cancel()
