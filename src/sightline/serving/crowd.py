"""Many clients at once, to see what each gets: in a process of their own, so that they do not slow the server's thread.

`python -m sightline.serving.crowd` reads orders from stdin, a line of JSON each, and answers with a line of JSON: how
long every request took, and what came back.
"""

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Order:
    """What a crowd is to do: so many clients at once, each asking so often, one request after the other."""

    url: str
    asked: Sequence[tuple[str, str]]
    """Paths and bodies, in turn."""
    clients: int
    requests_each: int


@dataclass(frozen=True)
class Outcome:
    """What a crowd got."""

    seconds: float
    """From the first request to the last answer."""
    latencies: Sequence[float]
    statuses: dict[str, int]
    """How many answers of each status, and how many requests that had none."""

    def percentile(self, percent: int) -> float:
        """Return the time within which so many of a hundred answers came."""
        return statistics.quantiles(self.latencies, n=100, method="inclusive")[percent - 1]


def gather(order: Order) -> Outcome:
    """Let the clients ask, and wait for all of them."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(order.clients) as pool:
        found = list(pool.map(lambda number: one_client(order, number), range(order.clients)))
    statuses = Counter(str(status) for answers in found for status, _ in answers)
    return Outcome(time.perf_counter() - begun, [took for answers in found for _, took in answers], dict(statuses))


def one_client(order: Order, number: int) -> list[tuple[int | str, float]]:
    """Ask one request after the other on one connection; return status and time of each."""
    place = urlsplit(order.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
    answers: list[tuple[int | str, float]] = []
    for turn in range(order.requests_each):
        path, body = order.asked[(number * order.requests_each + turn) % len(order.asked)]
        begun = time.perf_counter()
        try:
            connection.request("POST", path, body.encode(), {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            status: int | str = answer.status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        answers.append((status, time.perf_counter() - begun))
    connection.close()
    return answers


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
