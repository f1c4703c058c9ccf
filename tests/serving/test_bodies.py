"""Errors of invalid bodies, and their limits of size and time (T14)."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest

from sightline.errors import JSONProblem
from sightline.serving.http import Limits
from sightline.serving.http.problem import Problem
from sightline.serving.http.routing import INVALID_JSON, MAX_DEPTH, parse_json_body

from .example import Witness, example_app
from .standing import standing
from .wire import asked, asking, connect, post, read_all, statuses


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"[Infinity]", "Infinity is not a JSON number"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"1E+309", "too large"),
        (b"1" * 250 + b".0e99", "too large"),
        (b"9223372036854775808", "integer in the body is too large"),
        (b"-9223372036854775809", "integer in the body is too large"),
        (b"1" * 5000, "integer in the body is too large"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'["\\ud83d\\ud83d"]', "surrogate"),
        (b'{"a": 1, "a": 1}', "duplicate key: a"),
        (b'{"<b>": 1, "<b>": 1}', "duplicate key in one object"),
        (b"[" * 100_000, "nested more than 32 levels deep"),
        (b'{"a":' * 100_000, "nested more than 32 levels deep"),
        (b"[" * 100_000 + b"]" * 100_000, "nested more than 32 levels deep"),
        (b"\xff", "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{} {}", "not JSON"),
        (b"{}x", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"[1,]", "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b"\x00", "not JSON"),
        (b" ", "not JSON"),
        (b"tru", "not JSON"),
    ],
)
def test_invalid_json_is_refused_with_the_reason(data, reason):
    with pytest.raises(Problem, match=reason) as caught:
        parse_json_body(data)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


def test_every_kind_of_invalid_json_has_a_message():
    assert set(INVALID_JSON) == set(get_args(JSONProblem))


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_depth_of_a_body_is_allowed_up_to_the_limit_and_no_further(pair):
    def nested(depth: int) -> bytes:
        return (pair[0] * depth + "1" + pair[1] * depth).encode()

    assert parse_json_body(nested(MAX_DEPTH))
    with pytest.raises(Problem, match="32 levels deep"):
        parse_json_body(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("body", "message", "param", "code"),
    [
        ({"text": "a", "logprobs": True}, "logprobs is not supported", "logprobs", "unsupported_field"),
        ({"text": "a", "<script>": 1}, "(a field) is not supported", "(a field)", "unsupported_field"),
        ({}, "text is required", "text", "invalid_value"),
        ({"text": 1}, "text: must be a valid string", "text", "invalid_value"),
        ({"text": "a", "times": "3"}, "times: must be a valid integer", "times", "invalid_value"),
        ({"text": "a", "times": True}, "times: must be a valid integer", "times", "invalid_value"),
        ({"text": "a", "times": 1.5}, "times: must be a valid integer", "times", "invalid_value"),
        ({"text": "a", "times": 9}, "times: must be less than or equal to 8", "times", "invalid_value"),
        ({"text": "a", "tags": ["b", 1]}, "tags.1: must be a valid string", "tags.1", "invalid_value"),
        ({"text": "a", "kind": "odd"}, "kind: must be 'plain' or 'loud'", "kind", "invalid_value"),
        ([], "the body must be a JSON object", None, "invalid_value"),
        (None, "the body must be a JSON object", None, "invalid_value"),
    ],
)
def test_invalid_body_is_reported_by_field_and_never_echoed(client, body, message, param, code):
    data = json.dumps(body).encode()
    answer = client.post("/v1/echo", content=data, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    assert answer.json() == {"error": error}


def test_integer_may_have_a_decimal_point(client):
    """JSON has one kind of number: a field of type "integer" must accept 8.0."""
    headers = {"content-type": "application/json"}
    assert client.post("/v1/echo", content=b'{"text": "a", "times": 8.0}', headers=headers).json()["times"] == 8


def test_invalid_fields_are_reported_together_but_not_thousands(client):
    message = client.post("/v1/echo", json={f"field{n}": 1 for n in range(1000)}).json()["error"]["message"]
    assert "text is required" in message
    assert message.endswith("more")
    assert len(message) < 300


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/xml",
        "application/json; charset=latin-1",
        "application/jsonx",
        "",
        "application/ld+json",
    ],
)
def test_body_of_another_media_type_is_415(client, kind):
    answer = client.post("/v1/echo", content=b'{"text": "a"}', headers={"content-type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


def test_compressed_body_is_415(client):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert client.post("/v1/echo", content=b'{"text": "a"}', headers=headers).status_code == 415


@pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON", 'application/json; charset="UTF-8"'])
def test_json_content_type_is_accepted_in_any_spelling(client, kind):
    answer = client.post("/v1/echo", content=b'{"text": "a"}', headers={"content-type": kind})
    assert answer.status_code == 200


def test_form_is_accepted_where_a_route_allows_it(client):
    fields = {"q": "Straße & Co", "target": "de", "alternatives": "3"}
    assert client.post("/translate", data=fields).json() == {"text": "Straße & Co", "times": 3}
    assert client.post("/translate", json={**fields, "alternatives": 3}).json()["times"] == 3


@pytest.mark.parametrize(
    "data", [b"q=a&q=b&target=de", b"%ff=1", b"q=%ff&target=de", b"a&b", b"&".join([b"a=1"] * 99), b"\xff"]
)
def test_invalid_form_is_400(client, data):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content=data, headers=headers).status_code == 400


@pytest.fixture(scope="module")
def small():
    limits = Limits(body_bytes=1000, header_bytes=2000, header_fields=10)
    with standing(example_app(limits=limits)) as server:
        yield server.url


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413)])
def test_t14_body_at_the_limit_passes_and_one_byte_more_does_not(small, size, status):
    body = b'{"text": "a"}'.ljust(size)
    chunked = post(body).replace(b"Content-Length: %d" % size, b"Transfer-Encoding: chunked")
    chunked = chunked.replace(body, b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
    for request in (post(body), chunked):
        answer = asked(small, request)
        assert statuses(answer) == [status]
        assert (b"--max-body-bytes" in answer) == (status == 413)


@pytest.mark.parametrize(("size", "status"), [(2000, 200), (2001, 431)])
def test_t14_head_at_the_limit_passes_and_one_byte_more_does_not(small, size, status):
    start = b"GET /health HTTP/1.1\r\n"
    fixed = len(b"/health") + len(b"Host: localhost\r\n") + len(b"Connection: close\r\n") + len(b"X: \r\n")
    head = start + b"Host: localhost\r\nConnection: close\r\nX: " + b"a" * (size - fixed) + b"\r\n\r\n"
    answer = asked(small, head)
    assert statuses(answer) == [status]
    assert (b"--max-header-bytes" in answer) == (status == 431)


@pytest.mark.parametrize(("fields", "status"), [(10, 200), (11, 431)])
def test_t14_headers_at_the_limit_pass_and_one_more_does_not(small, fields, status):
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + b"X: a\r\n" * (fields - 2) + b"\r\n"
    answer = asked(small, head)
    assert statuses(answer) == [status]
    assert (b"--max-header-fields" in answer) == (status == 431)


def test_t14_request_over_its_timeout_is_504_and_cancelled():
    witness, limits = Witness(), Limits(request_timeout=3600, write_timeout=9999)
    with (
        standing(example_app(witness, limits=limits)) as server,
        asking(server.url) as client,
        ThreadPoolExecutor() as aside,
        connect(server.url) as reader,
    ):
        asked_for = aside.submit(client.post, "/v1/slow", json={"text": "a"})
        reader.sendall(b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        link = server.link(reader)
        witness.until(lambda: witness.begun == 2)
        server.until(lambda: link.is_held_up)
        server.advance(3599)
        assert witness.cancelled == 0
        server.advance(1)
        answer, stream = asked_for.result(), read_all(reader)
    assert answer.status_code == 504
    assert "--request-timeout" in answer.json()["error"]["message"]
    assert witness.cancelled == 2
    assert statuses(stream) == [200]
    assert not stream.endswith(b"0\r\n\r\n"), "a stream that was broken off does not look complete"


def test_large_response_arrives_whole(client):
    assert len(client.get("/v1/large").content) == 3_000_000


def test_openapi_schema_is_true(client):
    schema = client.get("/openapi.json").json()
    echo = schema["paths"]["/v1/echo"]["post"]
    assert {"200", "400", "413", "415", "429", "500", "503", "504"} <= set(echo["responses"])
    assert all("422" not in operation["responses"] for path in schema["paths"].values() for operation in path.values())
    assert set(schema["paths"]["/translate"]["post"]["requestBody"]["content"]) == {
        "application/json",
        "application/x-www-form-urlencoded",
    }
    assert set(echo["requestBody"]["content"]) == {"application/json"}
    assert schema["components"]["schemas"]["Echo"]["additionalProperties"] is False
