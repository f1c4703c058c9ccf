"""Clients that send or read as slowly as they can do not slow the others (T16)."""

import contextlib
import socket
import sys
import time
from collections.abc import Callable

import pytest

from pipelines.tiny import generator_bundle
from sightline.pipelines import Generator
from sightline.serving.http import Application, Limits, ServingSettings, background
from sightline.serving.service import service

from .example import Witness, example_app
from .measures import percentile
from .standing import Link, Standing, standing
from .wire import PATIENCE, asking, connect, place, read_all, statuses, until

ENDLESS = b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNREAD = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30
HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: local"
HALF_BODY = (
    b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


def slow_reader(url: str) -> socket.socket:
    """A client with the smallest receive buffer its system allows."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(place(url))
    return connection


def latencies(url: str, ask: tuple[str, dict], times: int) -> list[float]:
    found = []
    path, body = ask
    with asking(url) as client:
        for _ in range(times):
            begun = time.monotonic()
            assert client.post(path, json=body).status_code == 200
            found.append(time.monotonic() - begun)
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed or reset the connection."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass  # what it sent before it closed
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


ECHO = ("/v1/echo", {"text": "a"})
WRITE = ("/v1/completions", {"model": "gpt", "prompt": "the", "max_tokens": 4})


def besiege(
    app: Application, ask: tuple[str, dict], asked_by_readers: bytes, *, clients: int, readers: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return the latencies of a normal client before and during an attack, whose sockets must all be closed in time."""
    times = 100
    half_body = HALF_BODY.replace(b"/v1/echo", ask[0].encode())
    with background(app) as url, contextlib.ExitStack() as stack:
        latencies(url, ask, 5)
        before = latencies(url, ask, times)
        slow = [stack.enter_context(connect(url, seconds=60)) for _ in range(clients)]
        for number, connection in enumerate(slow):
            connection.sendall((HALF_HEAD, half_body)[number % 2])
        for _ in range(readers):
            connection = stack.enter_context(slow_reader(url))
            connection.sendall(asked_by_readers)
        assert until(lambda: len(app.lifecycle.working) >= readers), "nobody is held up"
        begun = time.monotonic()
        during = latencies(url, ask, times)
        assert until(lambda: all(map(is_closed, slow)), seconds=seconds - (time.monotonic() - begun))
        sys.stdout.write(f"{clients} closed after {time.monotonic() - begun:.1f} s\n")
        left = max(1.0, seconds - (time.monotonic() - begun))
        assert until(lambda: not app.lifecycle.working, seconds=left)
    return before, during


def service_app(limits: Limits) -> Application:
    """The real service, with a text generator."""
    return service({"gpt": Generator(generator_bundle())}, ServingSettings(port=0, limits=limits))


DEADLINES = Limits(
    header_timeout=3600, body_timeout=3600, write_timeout=3600, keep_alive_timeout=1e9, request_timeout=1e9
)
APPS: dict[str, Callable[[Witness], Application]] = {
    "example": lambda witness: example_app(witness, limits=DEADLINES),
    "models": lambda _: service_app(DEADLINES),
}


@pytest.mark.parametrize("kind", APPS)
def test_t16_slow_clients_are_disconnected_and_slow_nobody(kind):
    """Other clients are served meanwhile, and the slow ones are disconnected at their deadline."""
    witness = Witness()
    (path, body), unread = (ECHO, ENDLESS) if kind == "example" else (WRITE, UNREAD)
    halves = (HALF_HEAD, HALF_BODY.replace(b"/v1/echo", path.encode()))
    besieged = standing(APPS[kind](witness), send_buffer=16_384)
    with besieged as server, asking(server.url) as client, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(server.url)) for _ in range(18)]
        links = [server.deliver(connection, halves[number % 2]) for number, connection in enumerate(slow)]
        readers = [stack.enter_context(slow_reader(server.url)) for _ in range(3)]
        links += [server.deliver(reader, unread) for reader in readers]
        server.until(lambda: all(link.is_held_up for link in links[18:]))
        assert [client.post(path, json=body).status_code for _ in range(5)] == [200] * 5
        server.advance(3599)
        assert not any(link.is_refused for link in links)
        server.advance(1)
        assert all(link.is_refused for link in links[:18])
        end(server, links[18:])
        assert client.post(path, json=body).status_code == 200
        assert all(map(got_timeout, slow))
        assert until(lambda: not server.app.lifecycle.working)
    if kind == "example":
        assert (witness.begun, witness.cancelled) == (3, 3)


def end(server: Standing, links: list[Link]) -> None:
    """Let the timeout of slow readers pass; it restarts whenever their system has received some more."""
    while not all(link.is_refused for link in links):
        server.advance(3600)
    server.until(lambda: all(link.is_lost for link in links))


def got_timeout(connection: socket.socket) -> bool:
    """Whether a client that took too long gets the whole refusal."""
    return statuses(read_all(connection)) == [408]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["example", "models"])
def test_t16_five_hundred_slow_clients_with_the_usual_limits(kind):
    app = example_app() if kind == "example" else service_app(Limits())
    ask, unread = (ECHO, ENDLESS) if kind == "example" else (WRITE, UNREAD)
    before, during = besiege(app, ask, unread, clients=450, readers=50, seconds=35)
    latencies = [
        f"p50 {percentile(one, 50) * 1e3:.1f} ms, p99 {percentile(one, 99) * 1e3:.1f} ms" for one in (before, during)
    ]
    sys.stdout.write(f"{kind}: before: {latencies[0]}; during: {latencies[1]}\n")
    assert percentile(during, 99) <= 5 * percentile(before, 99) + 0.5


def test_t16_slow_reader_holds_up_the_writer_and_little_memory():
    """For a client that reads nothing, no more is produced than the system buffers, and 64 KiB."""
    witness = Witness()
    served = standing(example_app(witness, limits=DEADLINES), send_buffer=16_384)
    with served as server, slow_reader(server.url) as reader:
        reader.sendall(ENDLESS)
        link = server.link(reader)
        server.until(lambda: link.is_held_up)
        end(server, [link])
        witness.until(lambda: witness.cancelled == 1)
        buffered = reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        # Linux doubles the requested size.
        assert witness.sent <= 2 * 16_384 + buffered + (64 << 10) + 20_000


def test_slow_reader_within_the_limit_gets_everything():
    served = standing(example_app(limits=DEADLINES), send_buffer=16_384)
    with served as server, slow_reader(server.url) as reader:
        reader.sendall(b"GET /v1/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        link = server.link(reader)
        server.until(lambda: link.is_held_up)
        received = 0
        while part := reader.recv(200_000):
            if received // 1_000_000 < (received + len(part)) // 1_000_000:
                server.advance(1100)
            received += len(part)
        assert received > 3_000_000
