"""The server process: binds the socket and runs an app on it until a signal, then shuts down cleanly."""

import asyncio
import errno
import ipaddress
import logging
import math
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from sightline.errors import RefusedError, SightlineError
from sightline.serving.http.app import Application
from sightline.serving.http.protocol import protocol_for
from sightline.serving.http.settings import ServingSettings


def bind(settings: ServingSettings) -> socket.socket:
    """Return a socket bound to the address, or raise an error that says why it cannot be.

    Refuses addresses that other machines can reach without a key, unless that is explicitly allowed.
    """
    family, address = resolve_host(settings)
    if not is_loopback(address[0]) and not settings.keys and not settings.allow_unauthenticated:
        raise RefusedError(
            f"--host {settings.host} is open to other machines: set a key with --api-key, or allow requests without "
            "one with --allow-unauthenticated"
        )
    # With an explicit protocol asyncio sets TCP_NODELAY; without it, each small chunk would wait 40 ms for the last.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)  # two sockets can be bound to one port, as long as neither listens
    except OSError as error:
        listener.close()
        raise SightlineError(explain_bind_error(error, settings)) from None
    return listener


def resolve_host(settings: ServingSettings) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address of the host; of several, an IPv4 one, which every client tries."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if settings.host else 0
        )
    except (OSError, UnicodeError):
        raise RefusedError(
            f"--host {settings.host}: host not found; omit --host to listen on this machine only"
        ) from None
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def explain_bind_error(error: OSError, settings: ServingSettings) -> str:
    """Return why the address cannot be bound, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {settings.port} is in use: stop the program that uses it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {settings.port}: permission denied; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {settings.host} is not an address of this machine: omit --host to listen on this machine only"
    return f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}"


LOOPBACK_FOR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""The address by which this machine reaches a socket that listens on all addresses."""


def url_of(listener: socket.socket) -> str:
    """Return the URL of a bound socket for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = LOOPBACK_FOR.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


CLOSING_SECONDS = 2
"""Time for cancelled requests to respond."""

Started = Callable[[str], object]


class Server(uvicorn.Server):
    """uvicorn's server with a graceful shutdown: refuse new requests, let running ones finish, then exit.

    A second signal ends the waiting. The exit code is 0.
    """

    def __init__(self, config: uvicorn.Config, app: Application, *, started: Callable[[], object]) -> None:
        super().__init__(config)
        self.lifecycle = app.lifecycle
        self.shutdown_timeout = app.limits.shutdown_timeout
        self.on_started = started
        self.stop_started: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - Python calls it with both
        """Handle a signal: the first starts the shutdown, the second ends the waiting."""
        if self.lifecycle.stopping:
            self.shutdown_timeout = 0
        self.lifecycle.stopping = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it."""
        await super().startup(sockets)
        if self.started:
            self.on_started()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to exit; called ten times a second."""
        if await super().on_tick(counter):
            return True
        if not self.lifecycle.stopping:
            return False
        now = asyncio.get_running_loop().time()
        self.stop_started = now if self.stop_started is None else self.stop_started
        waited = now - self.stop_started
        if waited >= self.shutdown_timeout and not self.lifecycle.expired:
            self.lifecycle.expire()
            return not self.lifecycle.working
        return not self.lifecycle.working or waited >= self.shutdown_timeout + CLOSING_SECONDS


def server_for(app: Application, *, started: Callable[[], object]) -> Server:
    """Return the server for an app, with uvicorn's own logs, headers and websockets turned off."""
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
        timeout_keep_alive=math.ceil(app.limits.keep_alive_timeout),
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    return Server(config, app, started=started)


def serve(app: Application, listener: socket.socket, *, started: Started | None = None) -> None:
    """Serve an app on a bound socket until a signal. `started` is called with the URL once requests are accepted."""
    url = url_of(listener)
    raise_open_file_limit(app.limits.connections + 256)
    with logs_on_stderr():
        server_for(app, started=lambda: started(url) if started else None).run(sockets=[listener])


LOGGERS = ("sightline.access", "sightline.serving")


@contextmanager
def logs_on_stderr() -> Iterator[None]:
    """Write the server's log to stderr while the block lasts, unless its loggers have handlers already."""
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


def raise_open_file_limit(wanted: int) -> None:
    """Raise the soft limit of open files to `wanted`, as far as the hard limit allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


@contextmanager
def background(app: Application, *, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Iterator[str]:
    """Serve an app in a thread while the block lasts; yield its URL. For tests.

    `loop` creates the event loop, whose clock all deadlines follow.
    """
    listener = bind(app.settings)
    ready = threading.Event()
    server = server_for(app, started=ready.set)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=loop or server.config.get_loop_factory()) as runner:
                runner.run(server.serve(sockets=[listener]))
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="sightline-server", daemon=True)
    thread.start()
    ready.wait()
    try:
        if not server.started:
            raise RuntimeError("the server did not start")
        yield url_of(listener) if listener.fileno() >= 0 else ""
    finally:
        server.handle_exit(0, None)
        thread.join(app.limits.shutdown_timeout + 3 * CLOSING_SECONDS)
        listener.close()
