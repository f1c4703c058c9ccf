"""T14: every limit of the real service, at its value and one above; the refusal names the option that raises it."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from pipelines.tiny import generator_bundle
from sightline.pipelines import Generator
from sightline.serving.http import Limits, ServingSettings
from sightline.serving.http.routing import Router
from sightline.serving.service import service

from .standing import Standing, standing
from .wire import CLOSING, PATIENCE, asked, asking, connect, read_all, statuses, until

ASK = {"model": "gpt", "prompt": "the cat", "max_tokens": 2}
GPT = Generator(generator_bundle())
N_PROMPT = len(GPT.encode_prompts([ASK["prompt"]])[0])
SILENT = {"batch_size", "write_timeout", "keep_alive_timeout", "shutdown_timeout"}
"""No response refuses these: jobs over `batch_size` wait (below), a slow reader is cut off (T16), an idle connection is
closed, and a server that stops breaks off (T18)."""


class Hold:
    """Keeps all models busy from its start until it is released."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def __call__(self, _items: list[int]) -> list[bool]:
        self.begun.set()
        return [self.release.wait(PATIENCE)]


@contextmanager
def served(hold: Hold | None = None, **limits: int | float) -> Iterator[Standing]:
    """Serve a model; `/hold` keeps all models busy."""

    def holding(submitter) -> list[Router]:
        router = Router(include_in_schema=False)

        @router.post("/hold")
        async def hold_all() -> dict[str, bool]:
            [held] = await submitter.call(object(), hold, [0])
            return {"held": held}

        return [router]

    app = service({"gpt": GPT}, ServingSettings(port=0, limits=Limits(**limits)), more_routers=holding)
    with standing(app) as server:
        yield server


WITHIN = {
    "new_tokens": (3, {"max_tokens": 3}, {"max_tokens": 4}),
    "choices": (2, {"n": 2, "temperature": 1}, {"n": 3, "temperature": 1}),
    "stop_sequences": (2, {"stop": ["x", "y"]}, {"stop": ["x", "y", "z"]}),
    "inputs": (2, {"prompt": ["a", "b"]}, {"prompt": ["a", "b", "c"]}),
    "beams": (2, {"beam_size": 2}, {"beam_size": 3}),
    "prompt_tokens": (N_PROMPT, {}, {"prompt": "the cat sat on"}),
}
"""Limits of one request: the limit, a request at it, and one above it."""


@pytest.fixture(scope="module")
def narrow() -> Iterator[httpx.Client]:
    """A client of a server with all those limits, and one for the body."""
    limits = {name: most for name, (most, *_) in WITHIN.items()}
    with served(**limits, body_bytes=100) as server, asking(server.url) as client:
        yield client


@pytest.mark.parametrize("name", WITHIN)
def test_t14_request_at_a_limit_passes_and_one_above_is_refused(narrow, name):
    _, at, above = WITHIN[name]
    passed = narrow.post("/v1/completions", json={**ASK, **at})
    refused = narrow.post("/v1/completions", json={**ASK, **above})
    assert passed.status_code == 200, passed.text
    assert_names_option(refused, name, 400)


def assert_names_option(refused: httpx.Response, name: str, status: int) -> None:
    assert refused.status_code == status
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert Limits().flag(name) in error["message"]


def test_t14_prompt_one_token_above_is_refused():
    with served(prompt_tokens=N_PROMPT - 1) as server, asking(server.url) as client:
        assert_names_option(client.post("/v1/completions", json=ASK), "prompt_tokens", 400)


def test_t14_body_at_the_limit_passes_and_one_byte_more_does_not(narrow):
    body = b'{"model": "gpt", "prompt": "a", "max_tokens": 1}'
    headers = {"content-type": "application/json"}
    passed, refused = (narrow.post("/v1/completions", content=body.ljust(size), headers=headers) for size in (100, 101))
    assert passed.status_code == 200
    assert_names_option(refused, "body_bytes", 413)


@pytest.mark.parametrize(
    ("name", "limits", "more"),
    [
        ("header_bytes", {"header_bytes": 1000}, lambda n: b"X: " + b"a" * (1000 - 7 - 17 - 19 - 5 + n) + b"\r\n"),
        ("header_fields", {"header_fields": 8}, lambda n: b"X: a\r\n" * (6 + n)),
    ],
)
def test_t14_head_at_the_limit_passes_and_one_more_does_not(name, limits, more: Callable[[int], bytes]):
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    with served(**limits) as server:
        passed, refused = (asked(server.url, head + more(n) + b"\r\n") for n in (0, 1))
    assert statuses(passed) == [200]
    assert statuses(refused) == [431]
    assert Limits().flag(name).encode() in refused


def test_t14_queue_at_its_limit_waits_and_one_more_is_refused():
    hold = Hold()
    with served(hold, queue=2) as server, asking(server.url) as client, ThreadPoolExecutor(3) as aside:
        scheduler = server.app.state.submitter.scheduler
        held = aside.submit(client.post, "/hold")
        assert hold.begun.wait(PATIENCE)
        waiting = [aside.submit(client.post, "/v1/completions", json=ASK) for _ in range(2)]
        assert until(lambda: scheduler.n_waiting == 2)
        refused = client.post("/v1/completions", json=ASK)
        unread = client.post("/v1/completions", content=b"{")
        others = client.get("/v1/models")
        hold.release.set()
        passed = [one.result().status_code for one in (held, *waiting)]
    assert passed == [200, 200, 200]
    assert unread.status_code == 503  # a full server does not read what it refuses
    assert others.status_code == 200
    assert_names_option(refused, "queue", 503)
    assert int(refused.headers["retry-after"]) >= 1


def test_t14_jobs_over_the_batch_size_wait():
    with served(batch_size=2) as server, asking(server.url) as client:
        ask = {**ASK, "prompt": ["the"] * 6, "temperature": 1, "seed": 1, "max_tokens": 5}
        assert len(client.post("/v1/completions", json=ask).json()["choices"]) == 6
        counts = server.app.state.submitter.scheduler.counts
    assert counts.steps < counts.tokens <= 2 * counts.steps


def test_t14_connections_at_the_limit_are_served_and_one_more_is_refused():
    with served(connections=3) as server, contextlib.ExitStack() as stack:
        for number in range(3):
            assert statuses(asked(server.url, CLOSING)) == [200]
            server.until(lambda number=number: len(server.open_links) == number)  # those answered have disconnected
            stack.enter_context(connect(server.url))
            server.until(lambda number=number: len(server.open_links) == number + 1)
        refused = asked(server.url, CLOSING)
    assert statuses(refused) == [503]
    assert b"--max-connections" in refused
    assert b"retry-after: 1\r\n" in refused


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("requests_per_minute", {"requests_per_minute": 2}),
        ("tokens_per_minute", {"tokens_per_minute": 2 * (N_PROMPT + ASK["max_tokens"])}),
    ],
)
def test_t14_rate_at_the_limit_passes_and_more_is_refused(name, limits):
    with served(**limits, keep_alive_timeout=999) as server, asking(server.url) as client:
        answers = [client.post("/v1/completions", json=ASK) for _ in range(3)]
        server.advance(29)
        early = client.post("/v1/completions", json=ASK)
        server.advance(2)
        later = client.post("/v1/completions", json=ASK)
    assert [answer.status_code for answer in (*answers, early, later)] == [200, 200, 429, 429, 200]
    assert_names_option(answers[2], name, 429)
    assert int(answers[2].headers["retry-after"]) == 30


def test_t14_request_over_its_timeout_is_refused():
    hold = Hold()
    with served(hold, request_timeout=3600) as server, asking(server.url) as client, ThreadPoolExecutor() as aside:
        held = aside.submit(client.post, "/hold")
        assert hold.begun.wait(PATIENCE)
        server.advance(3600)
        refused = held.result()
        hold.release.set()
        assert client.post("/hold").status_code == 200
    assert_names_option(refused, "request_timeout", 504)


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("header_timeout", b"GET /health HTTP/1.1\r\nHost: local"),
        ("body_timeout", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 50\r\n\r\n{"),
    ],
)  # fmt: skip
def test_t14_what_arrives_too_slowly_is_refused(name, half):
    with served(**{name: 60}) as server, connect(server.url) as connection:
        server.deliver(connection, half)
        server.advance(60)
        refused = read_all(connection)
        assert statuses(asked(server.url, CLOSING)) == [200]
    assert statuses(refused) == [408]
    assert Limits().flag(name).encode() in refused


def test_t14_no_limit_is_forgotten():
    tested = {*WITHIN, *SILENT, "body_bytes", "header_bytes", "header_fields", "queue", "connections"}
    tested |= {"requests_per_minute", "tokens_per_minute", "request_timeout", "header_timeout", "body_timeout"}
    assert tested == {field.name for field in dataclasses.fields(Limits)}
