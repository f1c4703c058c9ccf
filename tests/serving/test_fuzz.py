"""Ten thousand malformed requests: no fault, no hang, and the server is still alive (T13)."""

import contextlib
import functools
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from pipelines.tiny import generator_bundle, many_languages_bundle
from sightline.pipelines import Generator, Translator
from sightline.serving.http import Application, Limits, ServingSettings, background
from sightline.serving.service import service

from .example import example_app
from .measures import resident_bytes
from .standing import Link, standing
from .wire import CLOSING, GET, all_at_once, asked, connect, post, read_all, statuses

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


@dataclass(frozen=True)
class Kind:
    """An app, and the valid requests from which malformed ones are made."""

    app: Callable[[Limits], Application]
    path: str
    body: bytes
    stream_path: str
    streamed: bytes
    form: bytes


def models(limits: Limits) -> Application:
    """The real service, with a text generator and a translator."""
    pipelines = {"gpt": Generator(generator_bundle()), "phrases": Translator(many_languages_bundle())}
    return service(pipelines, ServingSettings(port=0, limits=limits))


ASK = b'{"model": "gpt", "prompt": "the", "max_tokens": 2}'
KINDS = {
    "example": Kind(
        app=lambda limits: example_app(limits=limits),
        path="/v1/echo",
        body=b'{"text": "a"}',
        stream_path="/v1/stream",
        streamed=b'{"text": "a"}',
        form=b"q=a&target=de",
    ),
    "models": Kind(
        app=models,
        path="/v1/completions",
        body=ASK,
        stream_path="/v1/completions",
        streamed=ASK.replace(b"}", b', "stream": true}'),
        form=b"q=the+cat&target=de&model=phrases",
    ),
}


def seeds_for(kind: Kind) -> list[bytes]:
    """Return the seeds of the campaign: whole requests, valid and invalid."""
    body, path = kind.body, kind.path
    size = b"%x" % len(body)
    start = f"POST {path} HTTP/1.1\r\n".encode() + HOST + JSON
    return [
        b"",
        b"\r\n",
        b"\n\n\n",
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET",
        b"GET /",
        GET,
        GET * 3,
        GET.replace(b"\r\n", b"\n"),
        GET.replace(b"\r\n", b"\r"),
        GET.replace(b"1.1", b"1.0"),
        GET.replace(b"1.1", b"0.9"),
        GET.replace(b"1.1", b"9.9"),
        GET.replace(b"HTTP/1.1", b""),
        GET.replace(b"GET", b"get"),
        GET.replace(b"GET", b"BREW"),
        GET.replace(b"/health", b"http://localhost/health"),
        GET.replace(b"/health", b"*"),
        GET.replace(b"/health", b"//health"),
        GET.replace(b"/health", b"/%00%ff%"),
        GET.replace(b"/health", b"/\xff"),
        GET.replace(b"/health", b"/a" * 9000),
        GET.replace(b"Host", b" Host"),
        GET.replace(b"Host:", b"Host :"),
        GET.replace(b"localhost", b"localhost\r\nHost: a"),
        GET.replace(b"localhost", b"localhost\r\n folded"),
        GET.replace(b"localhost\r\n", b"localhost\r\n\x00: a\r\n"),
        GET.replace(b"localhost\r\n", b"localhost\r\nno colon\r\n"),
        GET.replace(b"localhost\r\n", b"localhost\r\n: no name\r\n"),
        GET.replace(b"localhost\r\n", b"localhost\r\nExpect: 100-continue\r\n"),
        GET.replace(b"localhost\r\n", b"localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
        GET.replace(
            b"localhost\r\n",
            b"localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n",
        ),
        GET.replace(b"localhost\r\n", b"localhost\r\nX: " + b"a" * 70_000 + b"\r\n"),
        GET.replace(b"GET", b"CONNECT"),
        GET.replace(b"GET /health", b"CONNECT localhost:80"),
        GET.replace(b"GET /health", b"OPTIONS *"),
        GET.replace(b"GET", b"TRACE"),
        post(body, path),
        post(b"", path),
        post(b"NaN", path),
        post(b'{"text": 1e999}', path),
        post(b'"\\ud800"', path),
        post(b"[" * 100_000, path),
        post(b"\xff\xfe", path),
        post(body, path, headers=b"Content-Encoding: gzip\r\n"),
        post(body, path, headers=b"Expect: 100-continue\r\n"),
        post(body, path, headers=b"Expect: 200-maybe\r\n"),
        post(body, path, headers=b"Transfer-Encoding: chunked\r\n"),
        post(body, path, headers=b"Transfer-Encoding: identity\r\n"),
        post(body, path, headers=b"Content-Length: 5\r\n"),
        start + b"Content-Length: -5\r\n\r\n",
        start + b"Content-Length: +5\r\n\r\nabcde",
        start + b"Content-Length: 0x5\r\n\r\nabcde",
        start + b"Content-Length: 99999999999999999999\r\n\r\n",
        start + b"Content-Length: 5, 5\r\n\r\nabcde",
        start + b"Content-Length: 18446744073709551617\r\n\r\na",
        start + b"Content-Length: 2000000\r\n\r\n" + b"a" * 100_000,
        start + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + body,
        start + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        start + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na",
        start + b"Transfer-Encoding: chunked\r\n\r\n" + size + b";a=b\r\n" + body,
        start + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\n" + body + b"\n0\n\n",
        start + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        start + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: a\r\n\r\n",
        start + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        start + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n",
        post(kind.form, "/translate").replace(b"application/json", b"application/x-www-form-urlencoded"),
        post(kind.streamed, kind.stream_path),
        post(body, path) + GET,
        post(body, path).replace(b"Connection: close\r\n", b"") + post(body, path),
    ]


PIECES = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b"\xff",
    b"\t",
    b"%",
    b"GET ",
    b"HTTP/1.1",
    HOST,
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"Connection: close\r\n",
    b"A" * 5000,
    b"{",
    b'"',
    b"\\u",
    b"9" * 30,
]


def malformed(seeds: list[bytes], number: int, chance: random.Random) -> bytes:
    """Return one of the seeds, at first as it is, then damaged in one to five places."""
    if number < len(seeds):
        return seeds[number]
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 5)):
        place = chance.randint(0, min(len(data), 400))
        kind = chance.randrange(5)
        if kind == 0:
            data[place:place] = chance.choice(PIECES)
        elif kind == 1:
            del data[place : place + chance.randint(1, 12)]
        elif kind == 2 and data:
            data[place % len(data)] = chance.randrange(256)
        elif kind == 3:
            data[place:place] = data[place : place + chance.randint(1, 40)]
        else:
            del data[len(data) - chance.randint(0, len(data)) :]
    return bytes(data)


def batches(kind: Kind, count: int, *, at_once: int, seed: int) -> Iterator[list[bytes]]:
    """Yield this many requests in batches."""
    chance = random.Random(seed)  # noqa: S311 - the same on every run
    seeds = seeds_for(kind)
    for begin in range(0, count, at_once):
        yield [malformed(seeds, number, chance) for number in range(begin, begin + at_once)]


def assert_well(request: bytes, answer: bytes | None) -> None:
    assert answer is not None, f"left hanging: {request[:300]!r}"
    assert all(status < 500 for status in statuses(answer)), (request[:300], answer[:300])


def is_settled(link: Link, n_sent: int) -> bool:
    """Whether the server does nothing more for a client until the clock advances."""
    protocol = link.protocol
    waits_for_body = protocol.in_body and protocol.running is protocol.cycle
    return link.is_lost or link.is_refused or (link.received == n_sent and (waits_for_body or not protocol.busy()))


@pytest.mark.parametrize("kind", KINDS)
def test_t13_malformed_requests_are_refused_and_nothing_hangs(kind, caplog):
    """What gets no response at once is ended by the first deadline; others are served before and after."""
    limits = Limits(
        **dict.fromkeys(("header_timeout", "body_timeout", "keep_alive_timeout"), 3600),
        **dict.fromkeys(("write_timeout", "request_timeout"), 1e9),
        **dict.fromkeys(("connections", "queue"), 400),
    )
    with caplog.at_level(logging.WARNING), standing(KINDS[kind].app(limits)) as server:
        for requests in batches(KINDS[kind], 300, at_once=100, seed=1):
            with contextlib.ExitStack() as stack:
                connections = [stack.enter_context(connect(server.url)) for _ in requests]
                links = [server.link(connection) for connection in connections]
                for connection, request in zip(connections, requests, strict=True):
                    with contextlib.suppress(ConnectionError):  # it was refused before its end
                        connection.sendall(request)
                for link, request in zip(links, requests, strict=True):
                    server.until(functools.partial(is_settled, link, len(request)))
                assert statuses(asked(server.url, CLOSING)) == [200]
                server.advance(3600)
                for connection, request in zip(connections, requests, strict=True):
                    assert_well(request, read_all(connection))
            assert statuses(asked(server.url, CLOSING)) == [200]
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("kind", KINDS)
def test_t13_seed_requests_are_valid(kind):
    """The seeds that get damaged are valid."""
    chosen = KINDS[kind]
    right = [post(chosen.body, chosen.path), post(chosen.streamed, chosen.stream_path), GET.replace(b"1.1", b"1.0")]
    form = post(chosen.form, "/translate").replace(b"application/json", b"application/x-www-form-urlencoded")
    with standing(chosen.app(Limits())) as server:
        answers = all_at_once(server.url, [*right, form])
    assert [statuses(answer or b"") for answer in answers] == [[200]] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_t13_ten_thousand_malformed_requests(kind, caplog):
    """In real time, with short deadlines; and memory does not grow."""
    limits = Limits(
        header_timeout=0.4, body_timeout=0.4, write_timeout=1.0, keep_alive_timeout=1, connections=400, queue=400
    )
    memory = 0
    with caplog.at_level(logging.WARNING), background(KINDS[kind].app(limits)) as url:
        for requests in batches(KINDS[kind], 10_000, at_once=100, seed=2):
            for request, answer in zip(requests, all_at_once(url, requests, seconds=8), strict=True):
                assert_well(request, answer)
            assert httpx.get(url + "/health", timeout=5).status_code == 200
            memory = memory or resident_bytes()  # server and clients are one process
        assert resident_bytes() - memory < 20 << 20
    assert [record.getMessage() for record in caplog.records] == []
