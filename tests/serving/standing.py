"""Servers whose clock stands still until the test advances it: no timeout expires by itself on a busy machine.

The event loop is the test's own and reports all that happens to its connections, so that a test can wait for it.
"""

import asyncio
import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sightline.serving.http import Application, background
from sightline.serving.http.protocol import GuardedProtocol

from .wire import PATIENCE

REPORTED = ("connection_made", "data_received", "pause_writing", "resume_writing", "on_response_complete")
ROUNDS = 8
"""Of the event loop, until the effects of a deadline are done: a timer, a future, a task, and some to spare."""
TICK = 0.1


class Link:
    """One connection as the server sees it."""

    def __init__(self, protocol: GuardedProtocol) -> None:
        self.protocol = protocol
        self.received = 0
        self.is_lost = False

    @property
    def is_refused(self) -> bool:
        """Whether the server ignores further input on it."""
        return self.protocol.is_refusing or self.protocol.transport.is_closing()

    @property
    def is_held_up(self) -> bool:
        """Whether its client reads nothing, so that the server has stopped writing."""
        return self.protocol.flow.write_paused


class Loop(asyncio.SelectorEventLoop):
    """An event loop with the clock of a `Standing`, to which it reports its connections."""

    def __init__(self, standing: "Standing") -> None:
        self.standing = standing
        super().__init__()

    def time(self) -> float:
        return self.standing.now

    async def create_server(self, protocol_factory, *args, sock, **options):
        if self.standing.send_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.standing.send_buffer)  # for what it accepts too
        factory = lambda: self.standing.watched(protocol_factory())  # noqa: E731
        return await super().create_server(factory, *args, sock=sock, **options)


class Standing:
    """A server, its clock and its connections, controlled by a test."""

    def __init__(self, app: Application, send_buffer: int | None) -> None:
        self.app, self.send_buffer = app, send_buffer
        self.url = ""
        self.now = 0.0
        self.changed = threading.Condition()
        self.links: list[Link] = []
        """In order of arrival, closed ones included."""
        self.loop: Loop | None = None

    def make_loop(self) -> Loop:
        self.loop = Loop(self)
        return self.loop

    # The clock

    def advance(self, seconds: float) -> None:
        """Advance the clock, and return when all deadlines that were due by then have been acted upon."""
        done = threading.Event()

        def move() -> None:
            self.now += seconds
            go_on(ROUNDS)

        def go_on(rounds: int) -> None:
            done.set() if rounds == 0 else self.loop.call_soon(go_on, rounds - 1)

        self.loop.call_soon_threadsafe(move)
        assert done.wait(PATIENCE), "the server does not move"

    def hurry(self) -> None:
        """Let the clock run fast once the server is stopping and serves no more requests."""
        if self.app.lifecycle.stopping:
            self.now += TICK
        time.sleep(0.0002)  # the last disconnects are still to be noticed
        self.loop.call_soon(self.hurry)

    # The connections

    def watched(self, protocol: GuardedProtocol) -> GuardedProtocol:
        """Report everything that happens to a connection."""
        link = Link(protocol)

        def report(method: Callable[..., None], *arguments: object) -> None:
            method(*arguments)
            with self.changed:
                if method.__name__ == "connection_made":
                    self.links.append(link)
                elif method.__name__ == "data_received":
                    link.received += len(arguments[0])
                elif method.__name__ == "connection_lost":
                    link.is_lost = True
                self.changed.notify_all()

        for name in (*REPORTED, "connection_lost"):
            setattr(protocol, name, functools.partial(report, getattr(protocol, name)))
        return protocol

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition about connections holds."""
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), "it did not come to that"

    @property
    def open_links(self) -> list[Link]:
        return [link for link in self.links if not link.is_lost]

    def link(self, connection: socket.socket) -> Link:
        """Return the server's end of a connection."""
        found: list[Link] = []

        def is_made() -> bool:
            found[:] = [link for link in self.open_links if link.protocol.client == connection.getsockname()[:2]]
            return bool(found)

        self.until(is_made)
        return found[0]

    def deliver(self, connection: socket.socket, data: bytes) -> Link:
        """Send, and return when the server has read all of it."""
        link = self.link(connection)
        wanted = link.received + len(data)
        connection.sendall(data)
        self.until(lambda: link.received >= wanted)
        return link


@contextmanager
def standing(app: Application, *, send_buffer: int | None = None) -> Iterator[Standing]:
    """Serve an app while the block lasts; its shutdown takes no time."""
    server = Standing(app, send_buffer)
    with background(app, loop=server.make_loop) as server.url:
        try:
            yield server
        finally:
            with contextlib.suppress(RuntimeError):  # a test of how servers stop has stopped it
                server.loop.call_soon_threadsafe(server.hurry)
