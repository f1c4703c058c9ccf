"""Clients that send or read as slowly as they can hurt nobody else (T16)."""

import contextlib
import socket
import statistics
import time
from pathlib import Path

import httpx
import pytest

from sightline.serving import Limits, background

from .example import Witness, example_app
from .wire import connect, place, until

ENDLESS = b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: local"
HALF_BODY = (
    b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


def slow_reader(url: str) -> socket.socket:
    """A client that takes as little as its system lets it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect(place(url))
    return connection


def latencies(url: str, times: int) -> list[float]:
    found = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(times):
            begun = time.monotonic()
            assert client.post("/v1/echo", json={"text": "a"}).status_code == 200
            found.append(time.monotonic() - begun)
    return found


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has ended the connection, however it did."""
    connection.setblocking(False)
    try:
        return connection.recv(65536) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def besiege(limits: Limits, *, clients: int, readers: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the latencies of a normal client before and during a siege, whose sockets must all be closed in time."""
    witness = Witness()
    with background(example_app(witness, limits=limits)) as url, contextlib.ExitStack() as stack:
        before = latencies(url, 20)
        slow = [stack.enter_context(connect(url, seconds=60)) for _ in range(clients)]
        for number, connection in enumerate(slow):
            connection.sendall((HALF_HEAD, HALF_BODY)[number % 2])
        for _ in range(readers):
            connection = stack.enter_context(slow_reader(url))
            connection.sendall(ENDLESS)
        assert until(lambda: witness.begun == readers, seconds=20)
        begun = time.monotonic()
        during = latencies(url, 20)
        assert until(lambda: all(map(is_closed, slow)), seconds=seconds - (time.monotonic() - begun))
        left = max(1.0, seconds - (time.monotonic() - begun))
        assert until(lambda: witness.cancelled == readers, seconds=left)
    return before, during


def test_t16_slow_clients_are_ended_and_hurt_nobody():
    limits = Limits(header_seconds=0.8, body_seconds=0.8, write_seconds=0.8)
    _, during = besiege(limits, clients=18, readers=3, seconds=0.8 + 2 + 2)
    assert len(during) == 20


@pytest.mark.slow
def test_t16_five_hundred_slow_clients_with_the_usual_limits():
    before, during = besiege(Limits(), clients=450, readers=50, seconds=35)
    assert statistics.median(during) <= 2 * statistics.median(before) + 0.05


def test_t16_slow_reader_holds_up_the_writer_and_little_memory():
    """What is produced for a reader that takes nothing is what the system buffers, and 64 KiB."""
    witness = Witness()
    with background(example_app(witness, limits=Limits(write_seconds=1.0))) as url, slow_reader(url) as reader:
        buffered = reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        reader.sendall(ENDLESS)
        assert until(lambda: witness.sent > 0)
        assert until(lambda: witness.cancelled == 1, seconds=10)
        most = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
        assert witness.sent <= most + buffered + (64 << 10) + 20_000


def test_reader_that_takes_its_time_within_the_limit_gets_everything():
    with background(example_app(limits=Limits(write_seconds=5.0))) as url, slow_reader(url) as reader:
        reader.sendall(b"GET /v1/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = 0
        while part := reader.recv(200_000):
            received += len(part)
        assert received > 3_000_000
