"""What common servers get wrong, each checked against ours."""

import contextlib
import dataclasses
import json
import logging

import pytest

from sightline.serving.http import Limits

from .example import Witness, example_app
from .standing import standing
from .wire import GET, all_at_once, asked, asking, connect, post, read_all, read_until, statuses


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": NaN}',
        b'{"text": 1e999}',
        b'{"text": "\\ud800"}',
        b'{"text": "a", "weight": Infinity}',
        b"[" * 100_000,
    ],
)
def test_m1_body_that_cannot_be_echoed_is_400(client, body):
    answer = client.post("/v1/echo", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


POST = b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HOURS = Limits(
    header_timeout=3600, body_timeout=3700, write_timeout=3800, keep_alive_timeout=3900, request_timeout=9999
)


@pytest.fixture(scope="module")
def server():
    with standing(example_app(limits=HOURS)) as made:
        yield made


@pytest.mark.parametrize(
    ("sent", "at_once", "seconds", "then"),
    [
        (b"", [], 3600, []),
        (b"\r\n\r\n", [], 3600, []),
        (b"GET /hea", [], 3600, [408]),
        (b"GET /health HTTP/1.1\r\nHost: local", [], 3600, [408]),
        (POST + b"Content-Length: 9\r\n\r\nhalf", [], 3700, [408]),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", [], 3700, [408]),
        (POST.replace(b"json", b"text") + b"Content-Length: 9\r\n\r\nhalf", [415], 3700, []),
        (GET, [200], 3900, []),
        (GET + b"\r\n", [200], 3900, []),
        (GET + b"GET /health", [200], 3600, [408]),
    ],
)
def test_m2_incomplete_request_times_out(server, sent, at_once, seconds, then):
    """Deadlines for the head, the body, and idle connections, also after a first request."""
    with connect(server.url) as connection:
        link = server.deliver(connection, sent)
        received = read_until(connection, lambda received: statuses(received) == at_once)
        server.advance(seconds - 1)
        assert not link.is_refused
        server.advance(1)
        assert link.is_refused
        assert statuses(received + read_all(connection)) == [*at_once, *then]


def test_m2_an_occasional_byte_extends_no_deadline(server):
    with connect(server.url) as connection:
        link = server.deliver(connection, b"GET /health HTTP/1.1\r\n")
        for _ in range(35):
            server.advance(100)
            server.deliver(connection, b"a")
            assert not link.is_refused
        server.advance(100)
        assert statuses(read_all(connection)) == [408]


def test_m2_complete_request_may_take_longer_than_any_deadline():
    witness = Witness()
    with standing(example_app(witness, limits=HOURS)) as server, connect(server.url) as connection:
        link = server.deliver(connection, post(b'{"text": "a"}', "/v1/slow"))
        witness.until(lambda: witness.begun == 1)
        server.advance(2 * 3900)
        assert not link.is_refused
        witness.open()
        assert statuses(read_all(connection)) == [200]


def test_m3_body_over_the_limit_is_413_by_its_length(client):
    answer = client.post("/v1/echo", content=b" " * 64_000_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "--max-body-bytes" in answer.json()["error"]["message"]


def test_m3_body_over_the_limit_is_413_by_counting(client):
    def pieces():
        for _ in range(2000):
            yield b" " * 1000

    answer = client.post("/v1/echo", content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize("head", [b"X: " + b"a" * 1_000_000, b"X: a\r\n" * 65, b"X" * 20_000 + b": a"])
def test_m3_head_over_the_limit_is_431(url, head):
    answer = asked(url, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
    assert statuses(answer) == [431]
    assert b"--max-header-" in answer


def test_m4_idle_connections_starve_nobody_and_one_too_many_is_refused():
    """The refusal is JSON with Retry-After, and idle connections are soon closed."""
    limits = dataclasses.replace(HOURS, connections=8)
    with standing(example_app(limits=limits)) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(server.url)) for _ in range(8)]
        server.until(lambda: len(server.open_links) == 8)
        answer = asked(server.url, GET)
        assert statuses(answer) == [503]
        assert b"retry-after: 1\r\n" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "overloaded"
        server.advance(3600)
        assert [read_all(connection) for connection in silent] == [b""] * 8
        with asking(server.url) as client:
            assert client.get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/v1/slow", "/v1/endless"])
def test_m5_endpoint_is_cancelled_on_disconnect(path):
    witness = Witness()
    with standing(example_app(witness)) as server:
        with connect(server.url) as connection:
            data = (
                post(b'{"text": "a"}', path)
                if path == "/v1/slow"
                else b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            connection.sendall(data)
            witness.until(lambda: witness.begun == 1)
        witness.until(lambda: witness.cancelled == 1)
        assert witness.finished == 0


def test_m5_request_before_a_queued_one_is_cancelled_too():
    """uvicorn notifies only the last request of a connection of a disconnect."""
    witness = Witness()
    with standing(example_app(witness)) as server:
        with connect(server.url) as connection:
            slow = post(b'{"text": "a"}', "/v1/slow").replace(b"Connection: close\r\n", b"")
            server.deliver(connection, slow + GET)
            witness.until(lambda: witness.begun == 1)
        witness.until(lambda: witness.cancelled == 1)


def test_m5_two_hundred_disconnects_cancel_all_endpoints():
    witness = Witness()
    with standing(example_app(witness)) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(connect(server.url)).sendall(post(b'{"text": "a"}', "/v1/slow"))
            witness.until(lambda: witness.begun == 200)
        witness.until(lambda: witness.cancelled == 200)
        assert witness.finished == 0
        with asking(server.url) as client:
            assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"Host: localhost\r\nHost: localhost\r\n",
        b"Host: localhost\r\nHost: evil.com\r\n",
        b"",
        b"Host: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Host: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
        b"Host: localhost\r\nContent-Length: -1\r\n",
        b"Host: localhost\r\nContent-Length: 1x\r\n",
    ],
)
def test_m6_ambiguous_heads_are_refused(url, head):
    assert statuses(asked(url, b"POST /v1/echo HTTP/1.1\r\n" + head + b"\r\n")) == [400]


def test_pipelined_requests_are_answered_in_order(url):
    body = b'{"text": "first"}'
    first = post(body).replace(b"Connection: close\r\n", b"")
    answer = asked(url, first + post(b'{"text": "second"}'))
    assert statuses(answer) == [200, 200]
    assert answer.index(b"first") < answer.index(b"second")


def test_junk_after_a_request_does_not_lose_its_response(url):
    first = post(b'{"text": "first"}').replace(b"Connection: close\r\n", b"")
    answer = asked(url, first + b"\x00\x01 junk\r\n\r\n")
    assert statuses(answer)[0] == 200


def test_too_many_pipelined_requests_end_the_connection(caplog):
    """The request in progress gets its response."""
    witness = Witness()
    served = standing(example_app(witness))
    with caplog.at_level(logging.ERROR), served as server, connect(server.url) as connection:
        slow = post(b'{"text": "a"}', "/v1/slow").replace(b"Connection: close\r\n", b"")
        link = server.deliver(connection, slow + GET * 100)
        assert link.is_refused
        witness.open()
        assert statuses(read_all(connection)) == [200]
    assert not caplog.records


def test_upgrade_is_answered_as_an_ordinary_request(url):
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
    answers = all_at_once(url, [head % b"websocket", head % b"h2c"])
    assert [statuses(answer or b"") for answer in answers] == [[200], [200]]
