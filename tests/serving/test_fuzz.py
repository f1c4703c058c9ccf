"""Ten thousand requests that are none: no fault, no hang, and the server is still there (T13)."""

import logging
import random
from pathlib import Path

import httpx
import pytest

from sightline.serving import Limits, background

from .example import example_app
from .wire import GET, all_at_once, post, statuses

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
POST = b"POST /v1/echo HTTP/1.1\r\n" + HOST + JSON
BODY = b'{"text": "a"}'

SEEDS = [
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
        b"localhost\r\n", b"localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n"
    ),
    GET.replace(b"localhost\r\n", b"localhost\r\nX: " + b"a" * 70_000 + b"\r\n"),
    GET.replace(b"GET", b"CONNECT"),
    GET.replace(b"GET /health", b"CONNECT localhost:80"),
    GET.replace(b"GET /health", b"OPTIONS *"),
    GET.replace(b"GET", b"TRACE"),
    post(BODY),
    post(b""),
    post(b"NaN"),
    post(b'{"text": 1e999}'),
    post(b'"\\ud800"'),
    post(b"[" * 100_000),
    post(b"\xff\xfe"),
    post(BODY, headers=b"Content-Encoding: gzip\r\n"),
    post(BODY, headers=b"Expect: 100-continue\r\n"),
    post(BODY, headers=b"Expect: 200-maybe\r\n"),
    post(BODY, headers=b"Transfer-Encoding: chunked\r\n"),
    post(BODY, headers=b"Transfer-Encoding: identity\r\n"),
    post(BODY, headers=b"Content-Length: 5\r\n"),
    POST + b"Content-Length: -5\r\n\r\n",
    POST + b"Content-Length: +5\r\n\r\nabcde",
    POST + b"Content-Length: 0x5\r\n\r\nabcde",
    POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    POST + b"Content-Length: 5, 5\r\n\r\nabcde",
    POST + b"Content-Length: 18446744073709551617\r\n\r\na",
    POST + b"Content-Length: 2000000\r\n\r\n" + b"a" * 100_000,
    POST + b"Transfer-Encoding: chunked\r\n\r\nd\r\n" + BODY + b"\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + BODY,
    POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na",
    POST + b"Transfer-Encoding: chunked\r\n\r\nd;a=b\r\n" + BODY,
    POST + b"Transfer-Encoding: chunked\r\n\r\nd\n" + BODY + b"\n0\n\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: a\r\n\r\n",
    POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 5000 + b"0\r\n\r\n",
    post(b"q=a&target=de", "/translate").replace(b"application/json", b"application/x-www-form-urlencoded"),
    post(BODY, "/v1/stream"),
    post(BODY) + GET,
    post(BODY).replace(b"Connection: close\r\n", b"") + post(BODY),
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


def malformed(number: int, chance: random.Random) -> bytes:
    """Return one of the seeds, at first as it is, then damaged in one to five places."""
    if number < len(SEEDS):
        return SEEDS[number]
    data = bytearray(chance.choice(SEEDS))
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


def resident() -> int:
    """Return the memory of this process, in bytes (server and clients are one)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fuzz(count: int, *, at_once: int, seed: int) -> None:
    """Send this many, and look after every batch whether all is well."""
    limits = Limits(
        header_seconds=0.4, body_seconds=0.4, write_seconds=1.0, keep_alive_seconds=1, connections=4 * at_once
    )
    chance = random.Random(seed)  # noqa: S311 - the same on every run
    with background(example_app(limits=limits)) as url:
        memory = 0
        for begin in range(0, count, at_once):
            requests = [malformed(number, chance) for number in range(begin, begin + at_once)]
            for request, answer in zip(requests, all_at_once(url, requests, seconds=8), strict=True):
                assert answer is not None, f"left hanging: {request[:300]!r}"
                assert all(status < 500 for status in statuses(answer)), (request[:300], answer[:300])
            assert httpx.get(url + "/health", timeout=5).status_code == 200
            memory = memory or resident()
        if count > 1000:
            assert resident() - memory < 20 << 20


def test_t13_malformed_requests_are_refused_and_nothing_hangs(caplog):
    with caplog.at_level(logging.WARNING):
        fuzz(300, at_once=100, seed=1)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.slow
def test_t13_ten_thousand_malformed_requests(caplog):
    with caplog.at_level(logging.WARNING):
        fuzz(10_000, at_once=100, seed=2)
    assert [record.getMessage() for record in caplog.records] == []
