"""`sightline bench serve`: throughput and latency of the server for many clients, beside minimal FastAPI handlers.

One handler translates with our pipeline, one with CTranslate2, whose translators share the cores.
"""

import json
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import uvicorn
from fastapi import FastAPI

from sightline.bench.contenders import Plan
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


def bench_serve(size: str, plan: Plan, *, clients: int, requests_each: int) -> list[Result]:
    """Load both servers in turn, with many clients and with one; return medians of the rounds."""
    threads = release_threads()
    found: dict[str, list[LoadResult]] = {}
    with ExitStack() as stack:
        urls = {"sightline": stack.enter_context(serve_ours(translator(size), clients, threads))}
        for name, (package, _) in HANDLERS.items():
            if find_spec(package):
                urls[name] = stack.enter_context(serve_handler(name, size))
        generator = stack.enter_context(start_load_generator())
        for number in range(-1, plan.rounds):
            for name, load in loads(urls, clients, requests_each).items():
                result = run_round(generator, load, number)
                if number >= 0:
                    found.setdefault(name, []).append(result)
            plan.note(f"round {number + 1} of {plan.rounds}")
    return [summarize(name, results) for name, results in found.items()]


def loads(urls: Mapping[str, str], clients: int, requests_each: int) -> dict[str, Load]:
    """Return the loads by name: each server with many clients, then each with one."""
    body = json.dumps({"q": SENTENCE, "target": "de"})
    found = {}
    for name, url in urls.items():
        found[f"{name}, {clients} clients"] = Load(url, [("/translate", body)], clients, requests_each)
    for name, url in urls.items():
        alone = max(5, clients * requests_each // 8)
        found[f"{name}, 1 client"] = Load(url, [("/translate", body)], 1, alone)
    return found


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
def serve_handler(name: str, size: str) -> Iterator[str]:
    """Serve a translator with a minimal FastAPI handler; yield the URL.

    In a process of its own: its many threads would slow the rest.
    """
    code = "import sys; from sightline.bench.serve import run_handler; run_handler(*sys.argv[1:])"
    command = [sys.executable, "-c", code, name, size]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def our_pipeline(size: str) -> Callable[[str], str]:
    """Return the simplest way to translate with our pipeline."""
    pipeline = translator(size)
    pipeline.model.eval()  # threads that share a model must not switch it
    return lambda text: str(pipeline.translate(text))


def ctranslate2_pipeline(size: str) -> Callable[[str], str]:
    """Return the same translator in CTranslate2: a translator of one thread for each core, in 8 bits."""
    import tempfile
    from pathlib import Path

    import ctranslate2
    import torch

    from sightline.bench.peers.ctranslate2 import save, words

    pipeline = translator(size)
    tokenizer, names = pipeline.tokenizer, words(pipeline.model.config)
    with tempfile.TemporaryDirectory() as folder:
        save(pipeline.model, Path(folder) / "model")
        cores = torch.get_num_threads()
        model = ctranslate2.Translator(
            str(Path(folder) / "model"), compute_type="int8", inter_threads=cores, intra_threads=1
        )

    def translate(text: str) -> str:
        source = [names[id_] for id_ in tokenizer.encode(text)]
        found = model.translate_batch([source], beam_size=1, max_decoding_length=N_TOKENS, min_decoding_length=N_TOKENS)
        return tokenizer.decode([int(word) for word in found[0].hypotheses[0] if word.isdigit()])

    return translate


HANDLERS: dict[str, tuple[str, Callable[[str], Callable[[str], str]]]] = {
    "simplest handler": ("torch", our_pipeline),
    "CTranslate2 handler": ("ctranslate2", ctranslate2_pipeline),
}
"""Name → required package, and what makes the function that translates."""


def run_handler(name: str, size: str) -> None:
    """Serve a translator with a minimal handler, and print the URL."""
    translate_text = HANDLERS[name][1](size)
    app = FastAPI()

    @app.post("/translate")
    def translate(body: dict[str, Any]) -> dict[str, str]:
        return {"translatedText": translate_text(body["q"])}

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listener])
