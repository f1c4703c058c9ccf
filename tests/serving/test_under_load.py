"""Many clients at once, and clients that go: small here, in full in the slow run (T15, T17, T19)."""

import json
import os
import random
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pipelines.tiny import generator_bundle
from sightline.pipelines import Generator
from sightline.serving import Limits, ServingSettings, background
from sightline.serving.crowd import Order, crowd
from sightline.serving.service import service


def resident_bytes() -> int:
    """Memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


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
    """Wait until nothing is done any more, for a while: a connection may be accepted after its client has gone."""
    quiet, deadline, steps = time.monotonic(), time.monotonic() + 15, -1
    while time.monotonic() < quiet + 0.5:
        assert time.monotonic() < deadline, "texts are being written that nobody waits for"
        if scheduler.counts.rows or scheduler.n_waiting or scheduler._running or scheduler.counts.steps != steps:
            quiet, steps = time.monotonic(), scheduler.counts.steps
        time.sleep(0.005)


def overload(gpt, *, clients: int, requests_each: int) -> None:
    """T15: every reply is 200 or 503, the queue stays within its bound, and afterwards all is as before."""
    with served(gpt, queue=16, rows=8, connections=2 * clients + 100) as (url, scheduler), crowd() as people:
        order = Order(url, [("/v1/completions", json.dumps(LONG))], clients, requests_each)
        people.gather(replace(order, clients=4, requests_each=2))
        before = resident_bytes()
        longest, stop = [0], threading.Event()

        def watch() -> None:
            while not stop.is_set():
                longest[0] = max(longest[0], scheduler.n_waiting)
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        outcome = people.gather(order)
        stop.set()
        watcher.join()
        assert set(outcome.statuses) <= {"200", "503"}, outcome.statuses
        assert outcome.statuses["200"] > 0
        assert outcome.statuses.get("503", 0) > 0
        assert longest[0] <= 16
        assert httpx.get(f"{url}/ready", timeout=10).json() == {"status": "ready"}
        come_to_rest(scheduler)
        assert resident_bytes() - before < 200e6


def test_t15_overload_is_refused_and_leaves_nothing_behind(gpt):
    overload(gpt, clients=60, requests_each=2)


@pytest.mark.slow
def test_t15_a_thousand_clients(gpt):
    overload(gpt, clients=1000, requests_each=10)


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


def gone(gpt, *, clients: int) -> None:
    """T17: clients leave, streaming or not, running or waiting: the steps stop, and the next is answered."""
    with served(gpt, queue=2 * clients, rows=8, connections=2 * clients + 100) as (url, scheduler):
        with httpx.Client(base_url=url, timeout=30) as client:
            client.post("/v1/completions", json=LONG)
            begun = time.perf_counter()
            client.post("/v1/completions", json=LONG)
            idle = time.perf_counter() - begun
        impatient = [threading.Thread(target=leave_soon, args=(url, number % 2 == 0)) for number in range(clients)]
        for thread in impatient:
            thread.start()
        for thread in impatient:
            thread.join()
        come_to_rest(scheduler)
        begun = time.perf_counter()
        assert httpx.post(f"{url}/v1/completions", json=LONG, timeout=30).status_code == 200
        assert time.perf_counter() - begun < max(5.0, 20 * idle)


def leave_soon(url: str, streams: bool) -> None:
    """Ask, and go before there is an answer."""
    timeout = httpx.Timeout(5, read=random.uniform(0.01, 0.1))  # noqa: S311
    try:
        with (
            httpx.Client(timeout=timeout) as client,
            client.stream("POST", f"{url}/v1/completions", json={**LONG, "stream": streams}) as answer,
        ):
            next(answer.iter_bytes(), None)
    except httpx.HTTPError:
        pass


def test_t17_who_goes_is_not_written_for(gpt):
    gone(gpt, clients=20)


@pytest.mark.slow
def test_t17_two_hundred_who_go(gpt):
    gone(gpt, clients=200)


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
        together: dict[int, str] = {}
        streamed: dict[int, str] = {}

        def ask(number: int) -> None:
            body = bodies[number]
            together[number] = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
            with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
                events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
            assert events.pop() == "[DONE]"
            streamed[number] = "".join(json.loads(event)["choices"][0]["text"] for event in events)

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(prompts)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert [together[number] for number in range(prompts)] == alone
    assert [streamed[number] for number in range(prompts)] == alone


def test_t19_alone_is_together_is_streamed(gpt):
    independent(gpt, prompts=24)


@pytest.mark.slow
def test_t19_two_hundred_prompts(gpt):
    independent(gpt, prompts=200)
