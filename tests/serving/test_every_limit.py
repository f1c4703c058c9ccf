"""T14: every limit of the real service, at its value and one above; the refusal names the option that raises it."""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from pipelines.tiny import generator_bundle
from sightline.pipelines import Generator
from sightline.serving import Limits, ServingSettings, background
from sightline.serving.route import Router
from sightline.serving.service import service

from .wire import GET, asked, connect, statuses, until

ASK = {"model": "gpt", "prompt": "the cat", "max_tokens": 2}
CLOSING = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
GPT = Generator(generator_bundle())
N_PROMPT = len(GPT.contexts([ASK["prompt"]])[0])
SILENT = {"rows", "write_seconds", "keep_alive_seconds", "stop_seconds"}
"""No answer refuses these: what is over `rows` waits (below), a slow reader is let go (T16), an idle connection is
closed, and a server that stops breaks off (T18)."""


@contextmanager
def served(release: threading.Event | None = None, **limits: int | float) -> Iterator[str]:
    """Serve a model; `/hold` keeps all models busy until `release` is set."""

    def holding(desk) -> list[Router]:
        router = Router(include_in_schema=False)

        @router.post("/hold")
        async def hold() -> dict[str, bool]:
            [held] = await desk.call(object(), lambda _: [release is None or release.wait(30)], [0])
            return {"held": held}

        return [router]

    app = service({"gpt": GPT}, ServingSettings(port=0, limits=Limits(**limits)), more_routers=holding)
    with background(app) as url:
        yield url


WITHIN = {
    "new_tokens": ({"new_tokens": 3}, {"max_tokens": 3}, {"max_tokens": 4}),
    "choices": ({"choices": 2}, {"n": 2, "temperature": 1}, {"n": 3, "temperature": 1}),
    "stop_sequences": ({"stop_sequences": 2}, {"stop": ["x", "y"]}, {"stop": ["x", "y", "z"]}),
    "batch": ({"batch": 2}, {"prompt": ["a", "b"]}, {"prompt": ["a", "b", "c"]}),
    "beams": ({"beams": 2}, {"beam": 2}, {"beam": 3}),
    "prompt_tokens": ({"prompt_tokens": N_PROMPT}, {}, {"prompt": "the cat sat on"}),
}
"""Limits of what one request asks for: the limit, what is just allowed, what is not."""


@pytest.mark.parametrize("name", WITHIN)
def test_t14_request_at_a_limit_passes_and_one_above_is_refused(name):
    limits, at, above = WITHIN[name]
    with served(**limits) as url:
        passed = httpx.post(f"{url}/v1/completions", json={**ASK, **at}, timeout=30)
        refused = httpx.post(f"{url}/v1/completions", json={**ASK, **above}, timeout=30)
    assert passed.status_code == 200, passed.text
    assert_names_option(refused, name, 400)


def assert_names_option(refused: httpx.Response, name: str, status: int) -> None:
    assert refused.status_code == status
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert Limits().flag(name) in error["message"]


def test_t14_prompt_one_token_above_is_refused():
    with served(prompt_tokens=N_PROMPT - 1) as url:
        assert_names_option(httpx.post(f"{url}/v1/completions", json=ASK, timeout=30), "prompt_tokens", 400)


def test_t14_body_at_the_limit_passes_and_one_byte_more_does_not():
    body = b'{"model": "gpt", "prompt": "a", "max_tokens": 1}'
    headers = {"content-type": "application/json"}
    with served(body_bytes=100) as url:
        passed, refused = (
            httpx.post(f"{url}/v1/completions", content=body.ljust(size), headers=headers, timeout=30)
            for size in (100, 101)
        )
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
    with served(**limits) as url:
        passed, refused = (asked(url, head + more(n) + b"\r\n") for n in (0, 1))
    assert statuses(passed) == [200]
    assert statuses(refused) == [431]
    assert Limits().flag(name).encode() in refused


def test_t14_queue_at_its_limit_waits_and_one_more_is_refused():
    release = threading.Event()

    async def ask(url: str) -> tuple[list[httpx.Response], httpx.Response]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            held = asyncio.create_task(client.post("/hold"))
            await level(client, "sightline_requests_in_progress", 2)  # that one, and whoever looks
            await level(client, "sightline_waiting_requests", 0)
            waiting = [asyncio.create_task(client.post("/v1/completions", json=ASK)) for _ in range(2)]
            await level(client, "sightline_waiting_requests", 2)
            refused = await client.post("/v1/completions", json=ASK)
            unread = await client.post("/v1/completions", content=b"{")
            assert unread.status_code == 503  # so busy a server does not look at what it refuses
            assert (await client.get("/v1/models")).status_code == 200
            release.set()
            return await asyncio.gather(held, *waiting), refused

    with served(release, queue=2) as url:
        passed, refused = asyncio.run(ask(url))
    assert [one.status_code for one in passed] == [200, 200, 200]
    assert_names_option(refused, "queue", 503)
    assert int(refused.headers["retry-after"]) >= 1


async def level(client: httpx.AsyncClient, name: str, wanted: int) -> None:
    """Wait until a figure of the server has reached a level."""
    async with asyncio.timeout(30):
        while f"\n{name} {wanted}\n" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)


def test_t14_texts_over_the_rows_wait_for_their_turn():
    app = service({"gpt": GPT}, ServingSettings(port=0, limits=Limits(rows=2)))
    with background(app) as url:
        ask = {**ASK, "prompt": ["the"] * 6, "temperature": 1, "seed": 1, "max_tokens": 5}
        assert len(httpx.post(f"{url}/v1/completions", json=ask, timeout=30).json()["choices"]) == 6
        counts = app.state.desk.scheduler.counts
    assert counts.steps < counts.tokens <= 2 * counts.steps


def test_t14_connections_at_the_limit_are_answered_and_one_more_is_refused():
    with served(connections=3) as url, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(url))
        assert until(lambda: statuses(asked(url, CLOSING)) == [200])
        stack.enter_context(connect(url))
        refused = asked(url, CLOSING)
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
def test_t14_what_is_allowed_a_minute_passes_and_more_is_refused(name, limits):
    with served(**limits) as url:
        answers = [httpx.post(f"{url}/v1/completions", json=ASK, timeout=30) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert_names_option(answers[2], name, 429)
    assert int(answers[2].headers["retry-after"]) >= 1


def test_t14_request_over_its_time_is_refused():
    release = threading.Event()
    with served(release, request_seconds=0.5) as url:
        refused = httpx.post(f"{url}/hold", timeout=30)
        release.set()
        assert until(lambda: httpx.post(f"{url}/hold", timeout=30).status_code == 200)
    assert_names_option(refused, "request_seconds", 504)


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("header_seconds", b"GET /health HTTP/1.1\r\nHost: local"),
        ("body_seconds", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 50\r\n\r\n{"),
    ],
)  # fmt: skip
def test_t14_what_arrives_too_slowly_is_refused(name, half):
    with served(header_seconds=0.5, body_seconds=0.5) as url:
        refused = asked(url, half)
        assert statuses(asked(url, CLOSING)) == [200]
    assert statuses(refused) == [408]
    assert Limits().flag(name).encode() in refused


def test_t14_no_limit_is_forgotten():
    tested = {*WITHIN, *SILENT, "body_bytes", "header_bytes", "header_fields", "queue", "connections"}
    tested |= {"requests_per_minute", "tokens_per_minute", "request_seconds", "header_seconds", "body_seconds"}
    assert tested == {field.name for field in dataclasses.fields(Limits)}
