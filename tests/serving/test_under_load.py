"""Overload and disconnects: step by step here, in real time in the slow run (T15, T17, T19)."""

import asyncio
import contextlib
import http.client
import json
import random
import re
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest

from cli.test_serve import server
from pipelines.tiny import generator_bundle
from sightline.bench.load_generator import Load, start_load_generator
from sightline.bundle import save
from sightline.pipelines import Generator
from sightline.serving.api import LoadedModels, Submitter
from sightline.serving.http import Limits, ServingSettings, background
from sightline.serving.scheduling.jobs import GenerationRequest, RunningBatch
from sightline.serving.scheduling.scheduler import Scheduler
from sightline.serving.service import service

from .measures import percentile, resident_bytes
from .standing import Standing, standing
from .wire import PATIENCE, asking, connect, place, post, read_all, statuses, until

LONG = {"model": "gpt", "prompt": "the cat", "max_tokens": 40, "temperature": 1, "seed": 3}


@pytest.fixture(scope="module")
def gpt():
    return Generator(generator_bundle())


@contextmanager
def served(gpt, **limits):
    """Serve the model; yield its URL and its scheduler."""
    app = service({"gpt": gpt}, ServingSettings(port=0, limits=Limits(**limits)))
    with background(app) as url:
        yield url, app.state.submitter.scheduler


@contextmanager
def served_by_steps(gpt, **limits) -> Iterator[tuple[Standing, Scheduler]]:
    """Serve the model with a clock that stands still; the gate controls its steps."""
    with standing(service({"gpt": gpt}, ServingSettings(port=0, limits=Limits(**limits)))) as server:
        yield server, server.app.state.submitter.scheduler


def hand_in(url: str, body: dict) -> socket.socket:
    """Request a completion, and do not wait for it."""
    connection = connect(url)
    connection.sendall(post(json.dumps(body).encode(), "/v1/completions"))
    return connection


def body_of(answer: bytes) -> dict:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def text_of(answer: bytes) -> str:
    """Return the text of a completion that came whole."""
    return body_of(answer)["choices"][0]["text"]


def streamed_text_of(answer: bytes) -> str:
    """Return the text of a streamed completion."""
    events = [line.removeprefix(b"data: ") for line in answer.split(b"\n") if line.startswith(b"data: ")]
    assert events.pop() == b"[DONE]"
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def come_to_rest(scheduler) -> None:
    """Wait until the server has been idle for a while: a connection may be accepted after its client has left.

    How long that takes is a matter of the machine; a text that is written for nobody would be noticed by its steps.
    """
    quiet, deadline, steps = time.monotonic(), time.monotonic() + 120, -1
    while time.monotonic() < quiet + 0.5:
        assert time.monotonic() < deadline, "something is still being done"
        if scheduler.counts.rows or scheduler.n_waiting or scheduler._running or scheduler.counts.steps != steps:
            quiet, steps = time.monotonic(), scheduler.counts.steps
        time.sleep(0.005)


def test_t15_overload_is_refused_and_leaves_nothing_behind(gpt, gate):
    """Every response is 200 or 503 with Retry-After, and afterwards the server is idle as before."""
    ask = {**LONG, "max_tokens": 8}
    with served_by_steps(gpt, queue=16, batch_size=8) as (server, scheduler), contextlib.ExitStack() as stack:
        connections = [stack.enter_context(hand_in(server.url, ask))]
        gate.until_reached()  # the model is busy with one, and stays so
        connections += [stack.enter_context(hand_in(server.url, ask)) for _ in range(59)]
        server.until(lambda: sum(link.is_lost for link in server.links) == 43)  # those who were refused
        assert scheduler.n_waiting == 16
        with asking(server.url) as client:
            assert client.get("/ready").json() == {"status": "ready"}
            gate.open()
            answers = [read_all(connection) for connection in connections]
            again = client.post("/v1/completions", json=ask)
        assert (scheduler.n_waiting, scheduler.counts.rows) == (0, 0)
    assert Counter(statuses(answer)[0] for answer in answers) == {200: 17, 503: 43}
    for answer in answers:
        if statuses(answer) == [200]:
            assert text_of(answer) == again.json()["choices"][0]["text"]
        else:
            assert 1 <= int(re.search(rb"retry-after: (\d+)\r\n", answer)[1]) <= 60
            assert "--max-queue" in body_of(answer)["error"]["message"]
            assert body_of(answer)["error"]["type"] == "overloaded_error"


@pytest.mark.slow
def test_t15_clients_faster_than_the_model(gpt):
    """The same in real time, and its memory."""
    clients, requests_per_client = 60, 2
    with (
        served(gpt, queue=16, batch_size=8, connections=2 * clients + 100) as (url, scheduler),
        start_load_generator() as generator,
    ):
        load = Load(url, [("/v1/completions", json.dumps(LONG))], clients, requests_per_client)
        generator.run(replace(load, clients=4, requests_per_client=2))
        before = resident_bytes()
        longest: list[int] = []
        with meanwhile(lambda: longest.append(scheduler.n_waiting), every=0.002):
            result = generator.run(load)
        assert set(result.statuses) <= {"200", "503"}, result.statuses
        assert result.statuses["200"] > 0
        assert result.statuses.get("503", 0) > 0
        assert max(longest) <= 16
        assert httpx.get(f"{url}/ready", timeout=10).json() == {"status": "ready"}
        come_to_rest(scheduler)
        assert resident_bytes() - before < 200e6


@contextmanager
def meanwhile(act: Callable[[], object], *, every: float) -> Iterator[None]:
    """Repeat a call while the block lasts."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(every):
            act()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_t15_a_thousand_clients_for_a_minute(tmp_path):
    """`sightline serve` with its usual limits, in a process of its own, as are the clients."""
    save(generator_bundle(), tmp_path / "gpt")
    with (
        server(tmp_path / "gpt") as (process, url, _),
        start_load_generator() as generator,
        httpx.Client(base_url=url) as looking,
    ):
        threading.Thread(target=lambda: deque(process.stderr, maxlen=0), daemon=True).start()  # read the log
        load = Load(url, [("/v1/completions", json.dumps(LONG))], clients=1000, requests_per_client=1)
        alone = generator.run(replace(load, clients=4, requests_per_client=5))
        idle = resident_bytes(process.pid)
        health: list[float] = []
        waiting: list[float] = []
        memory: list[int] = []

        def look() -> None:
            begun = time.perf_counter()
            assert looking.get("/health", timeout=60).status_code == 200
            health.append(time.perf_counter() - begun)
            waiting.append(figure(looking, "sightline_waiting_requests"))
            memory.append(resident_bytes(process.pid))

        with meanwhile(look, every=0.1):
            result = generator.run(replace(load, duration=60))
        ended = time.monotonic()
        assert until(lambda: figure(looking, "sightline_waiting_requests") == 0, seconds=5)
        assert until(lambda: figure(looking, "sightline_rows") == 0, seconds=5)
        rest = time.monotonic() - ended
        after = resident_bytes(process.pid)
    quarter = len(memory) // 4
    sys.stdout.write(
        f"{result.seconds:.0f} s: {result.statuses}; /health p99 {percentile(health, 99):.3f} s of {len(health)}; "
        f"503 p99 {result.percentile(99, status='503'):.2f} s, p50 {result.percentile(50, status='503'):.2f} s; "
        f"200 p50 {result.percentile(50, status='200'):.2f} s (alone {alone.percentile(50):.3f} s); "
        f"longest queue {max(waiting):.0f}; at rest after {rest:.2f} s; memory in MB: idle {idle / 1e6:.0f}, "
        f"quarters {[round(max(memory[n * quarter : (n + 1) * quarter]) / 1e6) for n in range(4)]}, "
        f"after {after / 1e6:.0f}\n"
    )
    assert set(result.statuses) == {"200", "503"}, result.statuses
    assert max(waiting) <= 64
    assert max(memory) - idle < 200e6
    assert percentile(health, 99) < 30
    assert result.percentile(99, status="503") < 60


def figure(looking: httpx.Client, name: str) -> float:
    """Return a metric of the server."""
    lines = looking.get("/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


class Watch:
    """Records every submitted request, and any step taken for one that was cancelled long before."""

    def __init__(self, scheduler, monkeypatch) -> None:
        self.scheduler = scheduler
        self.requests: list[GenerationRequest] = []
        self.cancelled_at: dict[GenerationRequest, int] = {}
        self.late: list[int] = []
        submit, cancel, advance = scheduler.submit, GenerationRequest.cancel, RunningBatch.advance

        def submit_seen(request: GenerationRequest) -> None:
            submit(request)
            self.requests.append(request)

        def cancel_seen(request: GenerationRequest) -> None:
            self.cancelled_at.setdefault(request, scheduler.counts.steps)
            cancel(request)

        def advance_seen(running: RunningBatch):
            self.late += [n for request in running.requests if (n := self.steps_since(request)) > 2]
            return advance(running)

        monkeypatch.setattr(scheduler, "submit", submit_seen)
        monkeypatch.setattr(GenerationRequest, "cancel", cancel_seen)
        monkeypatch.setattr(RunningBatch, "advance", advance_seen)

    def steps_since(self, request: GenerationRequest) -> int:
        """Return the number of steps since the request was cancelled."""
        return self.scheduler.counts.steps - self.cancelled_at.get(request, self.scheduler.counts.steps)


def check_disconnects(gpt, monkeypatch, *, clients: int) -> None:
    """T17: clients disconnect, streaming or not, running or waiting: the steps stop, and the next client is served."""
    limits = {"queue": 2 * clients, "batch_size": 8, "connections": 2 * clients + 100}
    with served(gpt, **limits) as (url, scheduler), start_load_generator() as generator:
        asked = [("/v1/completions", json.dumps({**LONG, "stream": streams})) for streams in (True, False)]
        load = Load(url, asked, clients=1, requests_per_client=1)
        generator.run(load)
        idle = min(generator.run(load).latencies[0] for _ in range(3))
        watch = Watch(scheduler, monkeypatch)
        result = generator.run(replace(load, clients=clients, patience=idle))  # together they take longer
        come_to_rest(scheduler)
        after = generator.run(replace(load, requests_per_client=3))  # the first may stand behind some not yet accepted
    sys.stdout.write(f"{clients} left: {result.statuses}; idle {idle:.3f} s, after {after.latencies} s\n")
    assert set(result.statuses) <= {"200", "TimeoutError"}, result.statuses
    assert result.statuses["TimeoutError"] > 0
    assert len(watch.requests) > clients // 2
    assert watch.late == []
    assert all(request.is_cancelled for request in watch.requests)
    assert after.statuses == {"200": 3}
    assert min(after.latencies) < max(5.0, 1.5 * idle)


def test_t17_disconnected_clients_take_no_more_steps(gpt, gate, monkeypatch):
    """The step in progress when the last client disconnects is the last one."""
    with served_by_steps(gpt, queue=20, batch_size=8) as (server, scheduler):
        watch = Watch(scheduler, monkeypatch)
        with contextlib.ExitStack() as stack:
            for number in range(20):
                stack.enter_context(hand_in(server.url, {**LONG, "stream": number % 2 == 0}))
                if number == 0:
                    gate.until_reached()
            assert until(lambda: scheduler.n_waiting == 19)
            for _ in range(3):
                gate.step()
            assert (scheduler.counts.rows, scheduler.n_waiting) == (8, 12)
            steps = scheduler.counts.steps
        assert until(lambda: all(request.is_cancelled for request in watch.requests))
        gate.open()
        assert until(lambda: not (scheduler._running or scheduler._queue))
        assert scheduler.counts.steps == steps
        with asking(server.url) as client:
            text = client.post("/v1/completions", json=LONG).json()["choices"][0]["text"]
    assert len(watch.requests) == 21
    assert text == gpt.generate(LONG["prompt"], max_new_tokens=40, do_sample=True, temperature=1, seed=3)
    assert scheduler.counts.rows == 0


@pytest.mark.slow
def test_t17_two_hundred_disconnected_clients(gpt, monkeypatch):
    check_disconnects(gpt, monkeypatch, clients=200)


def test_t17_generation_ends_with_its_http_request(gpt):
    """Even if the response was never read: a generator that was never started cannot clean up."""
    submitter = Submitter(LoadedModels({"gpt": gpt}), Scheduler(), Limits())

    async def submit() -> GenerationRequest:
        request = GenerationRequest(gpt, [gpt.create_job("the", gpt.settings())], streams=True)
        submitter._submit(request)
        return request

    async def disconnect_before_the_first_chunk() -> bool:
        request = await asyncio.create_task(submit())
        await asyncio.sleep(0)
        return request.is_cancelled

    assert asyncio.run(disconnect_before_the_first_chunk())


def test_t18_running_stream_is_finished_on_shutdown(gpt, gate):
    with (
        served_by_steps(gpt) as (server, _),
        asking(server.url) as client,
        hand_in(server.url, {**LONG, "stream": True}) as connection,
    ):
        gate.step()
        server.app.lifecycle.stopping = True  # this is all that a signal does
        server.advance(1)
        refused = client.post("/v1/completions", json=LONG)
        gate.open()
        answer = read_all(connection)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "stopping")
    assert streamed_text_of(answer) == gpt.generate(
        LONG["prompt"], max_new_tokens=40, do_sample=True, temperature=1, seed=3
    )
    assert b'"finish_reason": "' in answer


def prompts(n: int) -> list[dict]:
    """Return requests with texts of all lengths and all kinds of settings."""
    chance = random.Random(5)  # noqa: S311
    words = ("the", "cat", "sat", "on", "a", "dog", "ran", "house")
    return [
        {
            "model": "gpt",
            "prompt": " ".join(chance.choices(words, k=chance.randint(0, 8))),
            "max_tokens": chance.randint(1, 30),
            **chance.choice([{"temperature": 0}, {"temperature": 0.8, "seed": chance.randrange(99)}, {"beam_size": 3}]),
        }
        for _ in range(n)
    ]


def test_t19_alone_equals_batched_equals_streamed(gpt, gate):
    """Token for token, in one shared batch."""
    bodies = prompts(20)
    found = {}
    with served_by_steps(gpt) as (server, scheduler), asking(server.url) as client:
        for streams, text in {False: text_of, True: streamed_text_of}.items():
            gate.close()
            with contextlib.ExitStack() as stack:
                connections = []
                for number, body in enumerate(bodies):
                    connections.append(stack.enter_context(hand_in(server.url, {**body, "stream": streams})))
                    gate.until_reached()
                    assert until(lambda number=number: scheduler.n_waiting == number)
                gate.open()
                found[streams] = [text(read_all(connection)) for connection in connections]
        alone = [client.post("/v1/completions", json=body).json()["choices"][0]["text"] for body in bodies]
    assert found == {False: alone, True: alone}


def posted(connection: http.client.HTTPConnection, body: dict) -> bytes:
    """Request a completion, and return the whole response."""
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    return connection.getresponse().read()


@pytest.mark.slow
def test_t19_two_hundred_prompts_in_any_batch(gpt):
    bodies = prompts(200)
    with served(gpt, queue=200) as (url, _), asking(url) as client:
        alone = [client.post("/v1/completions", json=body).json()["choices"][0]["text"] for body in bodies]

        def ask(body: dict) -> tuple[str, str]:
            own = http.client.HTTPConnection(*place(url), timeout=PATIENCE)  # one each: cheaper to make than httpx's
            whole, lines = (posted(own, {**body, "stream": streams}) for streams in (False, True))
            own.close()
            return json.loads(whole)["choices"][0]["text"], streamed_text_of(lines)

        with ThreadPoolExecutor(200) as everyone:
            found = list(everyone.map(ask, bodies))
    assert [together for together, _ in found] == alone
    assert [streamed for _, streamed in found] == alone
