"""A load generator: many HTTP clients at once, in a process of their own, so that they do not slow the server.

`python -m sightline.bench.load_generator` reads loads from stdin, one JSON object a line, and writes a line of JSON for
each: how long every request took, and its status.
"""

import http.client
import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from sightline.serving.http.server import raise_open_file_limit


@dataclass(frozen=True)
class Load:
    """What to send: a number of concurrent clients, each with a number of requests, one after the other."""

    url: str
    requests: Sequence[tuple[str, str]]
    """Paths and bodies, used in turn."""
    clients: int
    requests_per_client: int
    duration: int | float | None = None
    """Send requests for this many seconds instead of a fixed number."""
    patience: int | float | None = None
    """Disconnect after a random time from half of this to all of it (seconds), or after the first byte."""


@dataclass(frozen=True)
class LoadResult:
    """Latencies and statuses of a load."""

    seconds: float
    """From the first request to the last response."""
    latencies: Sequence[float]
    statuses: dict[str, int]
    """Number of responses of each status, and of requests without one by the name of their error."""
    by_status: dict[str, Sequence[float]] = field(default_factory=dict)
    """The same latencies, for each status."""

    def percentile(self, percent: int, *, status: str | None = None) -> float:
        """Return a percentile of the latencies (of one status)."""
        latencies = self.latencies if status is None else self.by_status[status]
        return statistics.quantiles(latencies, n=100, method="inclusive")[percent - 1]


def run_load(load: Load) -> LoadResult:
    """Run all clients, and wait for them."""
    raise_open_file_limit(load.clients + 64)
    started = time.perf_counter()
    end = None if load.duration is None else started + load.duration
    with ThreadPoolExecutor(load.clients) as pool:
        found = list(pool.map(lambda number: run_client(load, number, end), range(load.clients)))
    by_status: dict[str, list[float]] = {}
    for status, latency in (response for responses in found for response in responses):
        by_status.setdefault(status, []).append(latency)
    return LoadResult(
        time.perf_counter() - started,
        [latency for responses in found for _, latency in responses],
        {status: len(latencies) for status, latencies in by_status.items()},
        dict(by_status),
    )


def run_client(load: Load, number: int, end: float | None) -> list[tuple[str, float]]:
    """Send one request after the other on one connection; return the status and latency of each."""
    address = urlsplit(load.url)
    rng = random.Random(number)  # noqa: S311
    timeout = 120.0 if load.patience is None else load.patience * rng.uniform(0.5, 1)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    responses: list[tuple[str, float]] = []
    for index in range(load.requests_per_client) if end is None else itertools.count():
        if end is not None and time.perf_counter() >= end:
            break
        path, body = load.requests[(number * load.requests_per_client + index) % len(load.requests)]
        started = time.perf_counter()
        try:
            status = send(connection, path, body, disconnects=load.patience is not None)
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        responses.append((status, time.perf_counter() - started))
    connection.close()
    return responses


def send(connection: http.client.HTTPConnection, path: str, body: str, *, disconnects: bool) -> str:
    """Send one request; return the status, and what the response lacks."""
    connection.request("POST", path, body.encode(), {"content-type": "application/json"})
    response = connection.getresponse()
    if disconnects:
        response.read1(1)
        connection.close()
    else:
        response.read()
    lacks = response.status == 503 and response.getheader("retry-after") is None
    return f"{response.status} without Retry-After" if lacks else str(response.status)


class LoadGenerator:
    """A load generator in another process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def run(self, load: Load) -> LoadResult:
        """Run a load, and wait for its end."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the load generator has no pipes")
        self.process.stdin.write(json.dumps(asdict(load)) + "\n")
        self.process.stdin.flush()
        return LoadResult(**json.loads(self.process.stdout.readline()))


@contextmanager
def start_load_generator() -> Iterator[LoadGenerator]:
    """Start a load generator while the block lasts."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        yield LoadGenerator(process)
        if process.stdin is not None:
            process.stdin.close()


def main() -> None:
    """Run loads until stdin ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asdict(run_load(Load(**json.loads(line))))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
