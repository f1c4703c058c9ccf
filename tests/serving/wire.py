"""Clients on raw sockets, and a patient HTTP client."""

import asyncio
import re
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

PATIENCE = 120.0
"""Seconds after which a hanging test fails: no test waits that long or asserts anything by it."""
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSING = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


def connect(url: str, *, seconds: float = PATIENCE) -> socket.socket:
    return socket.create_connection(place(url), timeout=seconds)


def asking(url: str) -> httpx.Client:
    """An HTTP client with a long timeout."""
    # Loading the certificates, which are not needed here, takes longer than a request.
    return httpx.Client(base_url=url, timeout=PATIENCE, verify=False, trust_env=False)  # noqa: S501


def read_until(connection: socket.socket, holds: Callable[[bytes], bool]) -> bytes:
    """Read until the received bytes fulfill a condition."""
    received = b""
    while not holds(received):
        part = connection.recv(65536)
        assert part, received
        received += part
    return received


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes; a reset counts as the end."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionError:
        pass
    return received


def asked(url: str, data: bytes, *, seconds: float = PATIENCE) -> bytes:
    """Send, and return everything until the server closes."""
    with connect(url, seconds=seconds) as connection:
        connection.sendall(data)
        return read_all(connection)


def post(body: bytes, path: str = "/v1/echo", *, headers: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % path.encode()
    return head + headers + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def statuses(answer: bytes) -> list[int]:
    """Return the status of every answer in what came back."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def until(holds: Callable[[], bool], *, seconds: float = PATIENCE) -> bool:
    """Wait until a condition holds, at most this long."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


async def one(url: str, data: bytes, *, seconds: float = PATIENCE) -> bytes | None:
    """Send, and return what came until the server closed; None if it did not close in time."""
    reader, writer = await asyncio.open_connection(*place(url))
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), seconds)
    except ConnectionError:
        return b""
    except TimeoutError:
        return None
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def all_at_once(url: str, requests: list[bytes], *, seconds: float = PATIENCE) -> list[bytes | None]:
    """Send many at the same time."""

    async def run() -> list[bytes | None]:
        return list(await asyncio.gather(*(one(url, data, seconds=seconds) for data in requests)))

    return asyncio.run(run())
