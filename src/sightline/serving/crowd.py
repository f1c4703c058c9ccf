"""Many clients at once, to see what each gets: in a process of their own, so that they do not slow the server's thread.

`python -m sightline.serving.crowd` reads orders from stdin, a line of JSON each, and answers with a line of JSON: how
long every request took, and what came back.
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

from sightline.serving.files import allow_many_files


@dataclass(frozen=True)
class Order:
    """What a crowd is to do: so many clients at once, each asking so often, one request after the other."""

    url: str
    asked: Sequence[tuple[str, str]]
    """Paths and bodies, in turn."""
    clients: int
    requests_each: int
    seconds: int | float | None = None
    """Ask until this time is over instead."""
    patience: int | float | None = None
    """Wait for an answer at most this long, half of it at least, and go; whoever has got a first byte goes as well."""


@dataclass(frozen=True)
class Outcome:
    """What a crowd got."""

    seconds: float
    """From the first request to the last answer."""
    latencies: Sequence[float]
    statuses: dict[str, int]
    """How many answers of each status, and how many requests that had none."""
    by_status: dict[str, Sequence[float]] = field(default_factory=dict)
    """The latencies once more, for each status."""

    def percentile(self, percent: int, *, status: str | None = None) -> float:
        """Return the time within which so many of a hundred answers (of a status) came."""
        latencies = self.latencies if status is None else self.by_status[status]
        return statistics.quantiles(latencies, n=100, method="inclusive")[percent - 1]


def gather(order: Order) -> Outcome:
    """Let the clients ask, and wait for all of them."""
    allow_many_files(order.clients + 64)
    begun = time.perf_counter()
    end = None if order.seconds is None else begun + order.seconds
    with ThreadPoolExecutor(order.clients) as pool:
        found = list(pool.map(lambda number: one_client(order, number, end), range(order.clients)))
    by_status: dict[str, list[float]] = {}
    for status, took in (answer for answers in found for answer in answers):
        by_status.setdefault(status, []).append(took)
    return Outcome(
        time.perf_counter() - begun,
        [took for answers in found for _, took in answers],
        {status: len(times) for status, times in by_status.items()},
        dict(by_status),
    )


def one_client(order: Order, number: int, end: float | None) -> list[tuple[str, float]]:
    """Ask one request after the other on one connection; return status and time of each."""
    place = urlsplit(order.url)
    chance = random.Random(number)  # noqa: S311
    patience = 120.0 if order.patience is None else order.patience * chance.uniform(0.5, 1)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=patience)
    answers: list[tuple[str, float]] = []
    for turn in range(order.requests_each) if end is None else itertools.count():
        if end is not None and time.perf_counter() >= end:
            break
        path, body = order.asked[(number * order.requests_each + turn) % len(order.asked)]
        begun = time.perf_counter()
        try:
            status = ask(connection, path, body, leaves=order.patience is not None)
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        answers.append((status, time.perf_counter() - begun))
    connection.close()
    return answers


def ask(connection: http.client.HTTPConnection, path: str, body: str, *, leaves: bool) -> str:
    """Ask once; return the status, and what is missing in the answer."""
    connection.request("POST", path, body.encode(), {"content-type": "application/json"})
    answer = connection.getresponse()
    if leaves:
        answer.read1(1)
        connection.close()
    else:
        answer.read()
    lacks = answer.status == 503 and answer.getheader("retry-after") is None
    return f"{answer.status} without Retry-After" if lacks else str(answer.status)


class Crowd:
    """A crowd in another process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def gather(self, order: Order) -> Outcome:
        """Let the clients ask."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the crowd cannot be spoken to")
        self.process.stdin.write(json.dumps(asdict(order)) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Call a crowd together for a while."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        yield Crowd(process)
        if process.stdin is not None:
            process.stdin.close()


def main() -> None:
    """Follow orders until there are none."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asdict(gather(Order(**json.loads(line))))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
