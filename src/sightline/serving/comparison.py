"""`sightline bench serve`: what many clients get of a model, beside the simplest handler that would serve it."""

import json
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
from fastapi import FastAPI

from sightline.bench.trace import N_TOKENS, SENTENCE, translator
from sightline.pipelines import Translator
from sightline.runtime import hand_over_threads
from sightline.serving import ServingSettings, background
from sightline.serving.crowd import Crowd, Order, Outcome, crowd
from sightline.serving.limits import Limits
from sightline.serving.service import service

Contenders = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Result:
    """What one kind of crowd got of one server."""

    name: str
    tokens_per_second: float
    p50: float
    p99: float
    """Seconds until the answer was there."""
    failures: int


def bench_serve(
    size: str, *, clients: int, requests_each: int, rounds: int, after_round: Callable[[int], object]
) -> list[Result]:
    """Let a crowd and a single client ask both servers in turn; medians of the rounds."""
    threads = hand_over_threads()
    work = translator(size)
    outcomes: dict[str, list[Outcome]] = {}
    with ours(work, clients, threads) as first, simplest(size) as second, crowd() as people:
        for turn in range(-1, rounds):
            for name, order in orders(first, second, clients, requests_each).items():
                outcome = ask(people, order, turn)
                if turn >= 0:
                    outcomes.setdefault(name, []).append(outcome)
            after_round(turn)
    return [result(name, several) for name, several in outcomes.items()]


def orders(first: str, second: str, clients: int, requests_each: int) -> dict[str, Order]:
    """Return what is asked of whom."""
    body = json.dumps({"q": SENTENCE, "target": "de"})
    many = Order(first, [("/translate", body)], clients, requests_each)
    one = replace(many, clients=1, requests_each=max(5, clients * requests_each // 8))
    return {
        f"sightline, {clients} clients": many,
        f"simplest handler, {clients} clients": replace(many, url=second),
        "sightline, 1 client": one,
        "simplest handler, 1 client": replace(one, url=second),
    }


def ask(people: Crowd, order: Order, turn: int) -> Outcome:
    """Let them ask; a round that only warms up is short."""
    return people.gather(replace(order, requests_each=1) if turn < 0 else order)


def result(name: str, outcomes: list[Outcome]) -> Result:
    """Return the medians of several rounds."""
    speeds = [one.statuses.get("200", 0) * N_TOKENS / one.seconds for one in outcomes]
    return Result(
        name,
        statistics.median(speeds),
        statistics.median(one.percentile(50) for one in outcomes),
        statistics.median(one.percentile(99) for one in outcomes),
        sum(count for one in outcomes for status, count in one.statuses.items() if status != "200"),
    )


@contextmanager
def ours(work: Translator, clients: int, threads: int) -> Iterator[str]:
    """Serve a model as `sightline serve` does, with room for all clients."""
    limits = Limits(queue=max(64, clients), connections=max(1024, 2 * clients))
    with background(service({"model": work}, ServingSettings(port=0, limits=limits), threads=threads)) as url:
        yield url


@contextmanager
def simplest(size: str) -> Iterator[str]:
    """Serve a model by the few lines that everyone writes first, in a process of its own: its many threads would slow
    whoever shares it.
    """
    code = "import sys; from sightline.serving.comparison import serve_simply; serve_simply(sys.argv[1])"
    command = [sys.executable, "-c", code, size]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def serve_simply(size: str) -> None:
    """Serve a translator, and say where."""
    work = translator(size)
    work.model.eval()  # threads that share a model must not switch it
    app = FastAPI()

    @app.post("/translate")
    def translate(body: dict[str, Any]) -> dict[str, str]:
        return {"translatedText": work.translate(body["q"])}

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        sys.stdout.write(f"http://127.0.0.1:{taken.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[taken])
