"""`sightline bench serve`: throughput and latency of the server for many clients, beside a minimal FastAPI handler."""

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

from sightline.bench.load_generator import Load, LoadGenerator, LoadResult, start_load_generator
from sightline.bench.trace import N_TOKENS, SENTENCE, translator
from sightline.pipelines import Translator
from sightline.runtime import release_threads
from sightline.serving.http import ServingSettings, background
from sightline.serving.http.settings import Limits
from sightline.serving.service import service


@dataclass(frozen=True)
class Result:
    """What one server achieved under one load."""

    name: str
    tokens_per_second: float
    p50: float
    p99: float
    """Latency in seconds."""
    failures: int


def bench_serve(
    size: str, *, clients: int, requests_each: int, rounds: int, after_round: Callable[[int], object]
) -> list[Result]:
    """Load both servers in turn, with many clients and with one; return medians of the rounds."""
    threads = release_threads()
    found: dict[str, list[LoadResult]] = {}
    with (
        serve_ours(translator(size), clients, threads) as ours,
        serve_baseline(size) as baseline,
        start_load_generator() as generator,
    ):
        for number in range(-1, rounds):
            for name, load in loads(ours, baseline, clients, requests_each).items():
                result = run_round(generator, load, number)
                if number >= 0:
                    found.setdefault(name, []).append(result)
            after_round(number)
    return [summarize(name, results) for name, results in found.items()]


def loads(ours: str, baseline: str, clients: int, requests_each: int) -> dict[str, Load]:
    """Return the loads by name: each server with many clients and with one."""
    body = json.dumps({"q": SENTENCE, "target": "de"})
    many = Load(ours, [("/translate", body)], clients, requests_each)
    one = replace(many, clients=1, requests_per_client=max(5, clients * requests_each // 8))
    return {
        f"sightline, {clients} clients": many,
        f"simplest handler, {clients} clients": replace(many, url=baseline),
        "sightline, 1 client": one,
        "simplest handler, 1 client": replace(one, url=baseline),
    }


def run_round(generator: LoadGenerator, load: Load, number: int) -> LoadResult:
    """Run a load; round -1 is a short warm-up."""
    return generator.run(replace(load, requests_per_client=1) if number < 0 else load)


def summarize(name: str, results: list[LoadResult]) -> Result:
    """Return the medians of several rounds."""
    speeds = [one.statuses.get("200", 0) * N_TOKENS / one.seconds for one in results]
    return Result(
        name,
        statistics.median(speeds),
        statistics.median(one.percentile(50) for one in results),
        statistics.median(one.percentile(99) for one in results),
        sum(count for one in results for status, count in one.statuses.items() if status != "200"),
    )


@contextmanager
def serve_ours(pipeline: Translator, clients: int, threads: int) -> Iterator[str]:
    """Serve a translator as `sightline serve` does, with a queue for all clients; yield the URL."""
    limits = Limits(queue=max(64, clients), connections=max(1024, 2 * clients))
    with background(service({"model": pipeline}, ServingSettings(port=0, limits=limits), threads=threads)) as url:
        yield url


@contextmanager
def serve_baseline(size: str) -> Iterator[str]:
    """Serve a translator with a minimal FastAPI handler; yield the URL.

    In a process of its own: its many threads would slow the rest.
    """
    code = "import sys; from sightline.bench.serve import run_baseline; run_baseline(sys.argv[1])"
    command = [sys.executable, "-c", code, size]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def run_baseline(size: str) -> None:
    """Serve a translator with a minimal handler, and print the URL."""
    pipeline = translator(size)
    pipeline.model.eval()  # threads that share a model must not switch it
    app = FastAPI()

    @app.post("/translate")
    def translate(body: dict[str, Any]) -> dict[str, str]:
        return {"translatedText": pipeline.translate(body["q"])}

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listener])
