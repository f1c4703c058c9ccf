"""Monitoring: the log, the metrics, and the request id."""

import logging
import re

import pytest

from .example import example_app
from .standing import standing
from .wire import asked, asking, until


@pytest.fixture
def lines(caplog):
    """The lines of the access log."""
    caplog.set_level(logging.INFO, logger="sightline.access")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "sightline.access"]


def test_every_request_is_logged_in_one_line_with_its_id(client, lines):
    answer = client.get("/v1/things/a?size=2")
    assert until(lambda: len(lines()) == 1)
    assert re.fullmatch(rf"GET /v1/things/a 200 \d+ms {answer.headers['x-request-id']}", lines()[0])


@pytest.mark.parametrize(
    ("target", "logged"),
    [("/a%0aGET%20/fake%20200", "/a%0aGET%20/fake%20200"), ("/" + "a" * 5000, "/" + "a" * 199), ("/?key=secret", "/")],
)
def test_log_line_cannot_be_forged_or_made_endless(url, lines, target, logged):
    asked(url, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert until(lambda: len(lines()) == 1)
    assert lines()[0].split(" ")[1] == logged


def test_refusal_by_the_protocol_is_logged_too(url, lines):
    answer = asked(url, b"junk\r\n\r\n")
    assert until(lambda: len(lines()) == 1)
    sent_id = re.search(rb"x-request-id: (\w+)", answer)
    assert sent_id is not None
    assert lines()[0] == f"- - 400 0ms {sent_id[1].decode()}"


def test_metrics_count_by_route_and_never_by_client_input():
    wanted = {
        'sightline_requests_total{method="GET",route="/v1/things/{name}",status="200"} 3',
        'sightline_requests_total{method="GET",route="none",status="404"} 3',
        'sightline_request_seconds_count{route="/v1/things/{name}"} 3',
        "sightline_requests_in_progress 1",
    }
    with standing(example_app()) as server, asking(server.url) as client:
        for name in ("a", "b", "c"):
            client.get(f"/v1/things/{name}")
            client.get(f"/nothing/{name}")
            client.request("BREW", "/health")
        # A request is counted when it has ended, which may be after its answer was read.
        assert until(lambda: wanted <= set(client.get("/metrics").text.splitlines()))
        answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "BREW" not in answer.text
