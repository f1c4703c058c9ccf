"""Many clients at once, and clients that go: small here, in full in the slow run (T15, T17, T19)."""

import asyncio
import http.client
import json
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest

from cli.test_serve import server
from pipelines.tiny import generator_bundle
from sightline.bundle import save
from sightline.pipelines import Generator
from sightline.serving import Limits, ServingSettings, background
from sightline.serving.api import Desk, Shelf
from sightline.serving.crowd import Order, crowd
from sightline.serving.running import Running
from sightline.serving.scheduler import Scheduler
from sightline.serving.service import service
from sightline.serving.work import Work

from .measures import percentile, resident_bytes
from .wire import place, until

LONG = {"model": "gpt", "prompt": "the cat", "max_tokens": 40, "temperature": 1, "seed": 3}


@pytest.fixture(scope="module")
def gpt():
    return Generator(generator_bundle())


@contextmanager
def served(gpt, **limits):
    """Serve the model; give its address and its scheduler."""
    app = service({"gpt": gpt}, ServingSettings(port=0, limits=Limits(**limits)))
    with background(app) as url:
        yield url, app.state.desk.scheduler


def come_to_rest(scheduler) -> None:
    """Wait until nothing is done any more, for a while: a connection may be accepted after its client has gone.

    How long that takes is a matter of the machine; a text that is written for nobody would be noticed by its steps.
    """
    quiet, deadline, steps = time.monotonic(), time.monotonic() + 120, -1
    while time.monotonic() < quiet + 0.5:
        assert time.monotonic() < deadline, "something is still being done"
        if scheduler.counts.rows or scheduler.n_waiting or scheduler._running or scheduler.counts.steps != steps:
            quiet, steps = time.monotonic(), scheduler.counts.steps
        time.sleep(0.005)


def overload(gpt, *, clients: int, requests_each: int) -> None:
    """T15: every reply is 200 or 503, the queue stays within its bound, and afterwards all is as before."""
    with served(gpt, queue=16, rows=8, connections=2 * clients + 100) as (url, scheduler), crowd() as people:
        order = Order(url, [("/v1/completions", json.dumps(LONG))], clients, requests_each)
        people.gather(replace(order, clients=4, requests_each=2))
        before = resident_bytes()
        longest: list[int] = []
        with meanwhile(lambda: longest.append(scheduler.n_waiting), every=0.002):
            outcome = people.gather(order)
        assert set(outcome.statuses) <= {"200", "503"}, outcome.statuses
        assert outcome.statuses["200"] > 0
        assert outcome.statuses.get("503", 0) > 0
        assert max(longest) <= 16
        assert httpx.get(f"{url}/ready", timeout=10).json() == {"status": "ready"}
        come_to_rest(scheduler)
        assert resident_bytes() - before < 200e6


@contextmanager
def meanwhile(act: Callable[[], object], *, every: float) -> Iterator[None]:
    """Do something again and again while the block lasts."""
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


def test_t15_overload_is_refused_and_leaves_nothing_behind(gpt):
    overload(gpt, clients=60, requests_each=2)


@pytest.mark.slow
def test_t15_a_thousand_clients_for_a_minute(tmp_path):
    """`sightline serve` with its usual limits, in a process of its own, as are the clients."""
    save(generator_bundle(), tmp_path / "gpt")
    with server(tmp_path / "gpt") as (process, url, _), crowd() as people, httpx.Client(base_url=url) as looking:
        threading.Thread(target=lambda: deque(process.stderr, maxlen=0), daemon=True).start()  # read the log
        order = Order(url, [("/v1/completions", json.dumps(LONG))], clients=1000, requests_each=1)
        alone = people.gather(replace(order, clients=4, requests_each=5))
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
            outcome = people.gather(replace(order, seconds=60))
        ended = time.monotonic()
        assert until(lambda: figure(looking, "sightline_waiting_requests") == 0, seconds=5)
        assert until(lambda: figure(looking, "sightline_rows") == 0, seconds=5)
        rest = time.monotonic() - ended
        after = resident_bytes(process.pid)
    quarter = len(memory) // 4
    sys.stdout.write(
        f"{outcome.seconds:.0f} s: {outcome.statuses}; /health p99 {percentile(health, 99):.3f} s of {len(health)}; "
        f"503 p99 {outcome.percentile(99, status='503'):.2f} s, p50 {outcome.percentile(50, status='503'):.2f} s; "
        f"200 p50 {outcome.percentile(50, status='200'):.2f} s (alone {alone.percentile(50):.3f} s); "
        f"longest queue {max(waiting):.0f}; at rest after {rest:.2f} s; memory in MB: idle {idle / 1e6:.0f}, "
        f"quarters {[round(max(memory[n * quarter : (n + 1) * quarter]) / 1e6) for n in range(4)]}, "
        f"after {after / 1e6:.0f}\n"
    )
    assert set(outcome.statuses) == {"200", "503"}, outcome.statuses
    assert max(waiting) <= 64
    assert max(memory) - idle < 200e6
    assert percentile(health, 99) < 30
    assert outcome.percentile(99, status="503") < 60


def figure(looking: httpx.Client, name: str) -> float:
    """Look a figure of the server up."""
    lines = looking.get("/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def test_t15_a_refusal_says_when_to_come_back(gpt):
    with served(gpt, queue=1, rows=1) as (url, _), httpx.Client(base_url=url, timeout=30) as client:
        answers = []
        asking = [
            threading.Thread(target=lambda: answers.append(client.post("/v1/completions", json=LONG)))
            for _ in range(12)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    for answer in refused:
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "--max-queue" in answer.json()["error"]["message"]
        assert answer.json()["error"]["type"] == "overloaded_error"


class Watch:
    """Sees every request that is handed in, and whether a step is taken for one that was cancelled long before."""

    def __init__(self, scheduler, monkeypatch) -> None:
        self.scheduler = scheduler
        self.works: list[Work] = []
        self.cancelled_at: dict[Work, int] = {}
        self.late: list[int] = []
        submit, cancel, advance = scheduler.submit, Work.cancel, Running.advance

        def submit_seen(work: Work) -> None:
            submit(work)
            self.works.append(work)

        def cancel_seen(work: Work) -> None:
            self.cancelled_at.setdefault(work, scheduler.counts.steps)
            cancel(work)

        def advance_seen(running: Running):
            self.late += [n for work in running.works if (n := self.steps_since(work)) > 2]
            return advance(running)

        monkeypatch.setattr(scheduler, "submit", submit_seen)
        monkeypatch.setattr(Work, "cancel", cancel_seen)
        monkeypatch.setattr(Running, "advance", advance_seen)

    def steps_since(self, work: Work) -> int:
        """Return how many steps were taken since it was noticed that nobody waits."""
        return self.scheduler.counts.steps - self.cancelled_at.get(work, self.scheduler.counts.steps)


def gone(gpt, monkeypatch, *, clients: int) -> None:
    """T17: clients leave, streaming or not, running or waiting: the steps stop, and the next is answered."""
    limits = {"queue": 2 * clients, "rows": 8, "connections": 2 * clients + 100}
    with served(gpt, **limits) as (url, scheduler), crowd() as people:
        asked = [("/v1/completions", json.dumps({**LONG, "stream": streams})) for streams in (True, False)]
        order = Order(url, asked, clients=1, requests_each=1)
        people.gather(order)
        idle = min(people.gather(order).latencies[0] for _ in range(3))
        watch = Watch(scheduler, monkeypatch)
        outcome = people.gather(replace(order, clients=clients, patience=idle))  # together they take longer
        come_to_rest(scheduler)
        after = people.gather(replace(order, requests_each=3))  # the first may stand behind some not yet accepted
    sys.stdout.write(f"{clients} left: {outcome.statuses}; idle {idle:.3f} s, after {after.latencies} s\n")
    assert set(outcome.statuses) <= {"200", "TimeoutError"}, outcome.statuses
    assert outcome.statuses["TimeoutError"] > 0
    assert len(watch.works) > clients // 2
    assert watch.late == []
    assert all(work.is_cancelled for work in watch.works)
    assert after.statuses == {"200": 3}
    assert min(after.latencies) < max(5.0, 1.5 * idle)


def test_t17_who_goes_is_not_written_for(gpt, monkeypatch):
    gone(gpt, monkeypatch, clients=20)


@pytest.mark.slow
def test_t17_two_hundred_who_go(gpt, monkeypatch):
    gone(gpt, monkeypatch, clients=200)


def test_t17_what_was_asked_for_ends_with_its_request(gpt):
    """Even if nobody ever began to read the answer: a generator that was never begun cannot clean up."""
    desk = Desk(Shelf({"gpt": gpt}), Scheduler(), Limits())

    async def request() -> Work:
        work = Work(gpt, [gpt.task("the", gpt.settings())], streams=True)
        desk._submit(work)
        return work

    async def gone_before_it_began() -> bool:
        work = await asyncio.create_task(request())
        await asyncio.sleep(0)
        return work.is_cancelled

    assert asyncio.run(gone_before_it_began())


def posted(connection: http.client.HTTPConnection, body: dict) -> str:
    """Ask for a completion, and return all that comes."""
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    return connection.getresponse().read().decode()


def independent(gpt, *, prompts: int) -> None:
    """T19: alone, in a crowd, streamed and not: the same text, token for token."""
    chance = random.Random(5)  # noqa: S311
    words = ("the", "cat", "sat", "on", "a", "dog", "ran", "house")
    bodies = [
        {
            "model": "gpt",
            "prompt": " ".join(chance.choices(words, k=chance.randint(0, 8))),
            "max_tokens": chance.randint(1, 30),
            **chance.choice([{"temperature": 0}, {"temperature": 0.8, "seed": chance.randrange(99)}, {"beam": 3}]),
        }
        for _ in range(prompts)
    ]
    with served(gpt, queue=prompts) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        alone = [client.post("/v1/completions", json=body).json()["choices"][0]["text"] for body in bodies]

        def ask(body: dict) -> tuple[str, str]:
            own = http.client.HTTPConnection(*place(url), timeout=120)  # one each, and cheaper to make than httpx's
            whole, lines = (posted(own, {**body, "stream": streams}) for streams in (False, True))
            own.close()
            events = [line.removeprefix("data: ") for line in lines.split("\n") if line]
            assert events.pop() == "[DONE]"
            streamed = "".join(json.loads(event)["choices"][0]["text"] for event in events)
            return json.loads(whole)["choices"][0]["text"], streamed

        with ThreadPoolExecutor(prompts) as everyone:
            found = list(everyone.map(ask, bodies))
    assert [together for together, _ in found] == alone
    assert [streamed for _, streamed in found] == alone


def test_t19_alone_is_together_is_streamed(gpt):
    independent(gpt, prompts=24)


@pytest.mark.slow
def test_t19_two_hundred_prompts(gpt):
    independent(gpt, prompts=200)
