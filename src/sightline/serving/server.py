"""The server process: from a bound socket and an app to answers, until a signal, and then to a clean end."""

import asyncio
import logging
import math
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from sightline.serving.address import bind, url_of
from sightline.serving.app import Application
from sightline.serving.files import allow_many_files
from sightline.serving.protocol import protocol_for

CLOSING_SECONDS = 2
LOGGERS = ("sightline.access", "sightline.serving")

Started = Callable[[str], object]


class Server(uvicorn.Server):
    """uvicorn's server, stopped in order: first nothing new is begun, then what runs may finish, then it ends.

    A second signal ends the waiting. The process then leaves as if it had come to its end by itself: exit code 0.
    """

    def __init__(self, config: uvicorn.Config, app: Application, *, started: Callable[[], object]) -> None:
        super().__init__(config)
        self.lifecycle = app.lifecycle
        self.stop_seconds = app.limits.stop_seconds
        self.told_started = started
        self.stop_begun: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - Python calls it with both
        """Note a signal: the first asks to stop, the second to hurry."""
        if self.lifecycle.stopping:
            self.stop_seconds = 0
        self.lifecycle.stopping = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self.told_started()

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether it is time to end."""
        if await super().on_tick(counter):
            return True
        if not self.lifecycle.stopping:
            return False
        now = asyncio.get_running_loop().time()
        self.stop_begun = now if self.stop_begun is None else self.stop_begun
        waited = now - self.stop_begun
        if waited >= self.stop_seconds and not self.lifecycle.expired:
            self.lifecycle.expire()
            return not self.lifecycle.working
        return not self.lifecycle.working or waited >= self.stop_seconds + CLOSING_SECONDS


def server_for(app: Application, *, started: Callable[[], object]) -> Server:
    """Return the server for an app, with nothing of uvicorn's that could speak to the outside for us."""
    config = uvicorn.Config(
        app,
        http=protocol_for(app.limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=math.ceil(app.limits.keep_alive_seconds),
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    return Server(config, app, started=started)


def serve(app: Application, taken: socket.socket, *, started: Started | None = None) -> None:
    """Answer on a bound socket until a signal comes. `started` is called with the address once answers are given."""
    url = url_of(taken)
    allow_many_files(app.limits.connections + 256)
    with logs_on_stderr():
        server_for(app, started=lambda: started(url) if started else None).run(sockets=[taken])


@contextmanager
def background(app: Application, *, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Iterator[str]:
    """Serve an app in a thread while the block lasts: its address, a free port of this machine. For tests.

    `loop` makes the event loop, whose clock is the one that all deadlines follow.
    """
    taken = bind(app.settings)
    ready = threading.Event()
    server = server_for(app, started=ready.set)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=loop or server.config.get_loop_factory()) as runner:
                runner.run(server.serve(sockets=[taken]))
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="sightline-server", daemon=True)
    thread.start()
    ready.wait()
    try:
        if not server.started:
            raise RuntimeError("the server did not start")
        yield url_of(taken) if taken.fileno() >= 0 else ""
    finally:
        server.handle_exit(0, None)
        thread.join(app.limits.stop_seconds + 3 * CLOSING_SECONDS)
        taken.close()


@contextmanager
def logs_on_stderr() -> Iterator[None]:
    """Write the server's log to stderr while the block lasts, unless somebody has arranged for it otherwise."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    loggers = [logger for logger in map(logging.getLogger, LOGGERS) if not logger.hasHandlers()]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
