"""Access control: hosts, keys, origins and security headers (T21 to T24)."""

import logging

import pytest
from fastapi.routing import iter_route_contexts
from starlette.staticfiles import StaticFiles

from pipelines.tiny import generator_bundle
from sightline.errors import SettingsError
from sightline.pipelines import Generator
from sightline.serving.http import Limits, ServingSettings
from sightline.serving.service import service
from sightline.studio import routes

from .example import example_app
from .standing import standing
from .wire import asked, asking, post, statuses

KEY = "correct-horse-battery"
OTHER_KEY = "another-good-key-1"
READ_KEY = "one-for-prometheus"

HOSTILE = [
    "evil.com",
    "evil.com:80",
    "127.0.0.1.evil.com",
    "localhost.evil.com",
    "localhost.",
    "127.0.0.1.",
    "0.0.0.0",  # noqa: S104 - somebody else says it
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "[::ffff:127.0.0.1]",
    "[::]",
    "[::1",
    "::1",
    "[::1]evil",
    "[::2]",
    "localhost:port",
    "localhost:",
    "localhost:999999",
    "localhost:80:80",
    "localhost@evil.com",
    "evil.com@localhost",
    "user:pw@localhost",
    "localhost/evil",
    "localhost?x",
    "localhost#x",
    "localhost,evil.com",
    "localhost evil.com",
    "http://localhost",
    "//localhost",
    "",
    " ",
    "-localhost",
    ".localhost",
    "locаlhost",
    "localhost\t.com",
    "*",
    "localhost%00",
    "localhost\\evil",
    "10.0.0.1",
    "192.168.0.1:8000",
    "lo_calhost",
    "a" * 300,
]


@pytest.mark.parametrize("host", HOSTILE)
def test_t21_hostile_host_is_refused(url, host):
    head = f"GET /v1/things/a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert statuses(asked(url, head))[0] in (400, 421)


@pytest.mark.parametrize("path", ["/health", "/static/none", "/openapi.json", "/metrics", "/nothing"])
def test_t21_host_is_checked_on_every_path(url, path):
    head = f"GET {path} HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n".encode()
    assert statuses(asked(url, head)) == [421]


@pytest.mark.parametrize(
    "target", ["http://localhost/health", "http://evil.com/health", "//evil.com/health\\", "*", "localhost:80"]
)
def test_t21_absolute_url_is_refused(url, target):
    head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    assert statuses(asked(url, head))[0] in (400, 404)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:8000", "[::1]"]
)
def test_t21_own_names_pass(url, host):
    head = f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert statuses(asked(url, head)) == [200]


def test_t21_allowed_host_passes_and_the_refusal_names_the_option():
    with standing(example_app(allowed_hosts=("box.lan",))) as server, asking(server.url) as client:
        assert client.get("/health", headers={"host": "Box.LAN:80"}).status_code == 200
        refusal = client.get("/health", headers={"host": "other.lan"})
    assert refusal.status_code == 421
    assert "--allowed-host" in refusal.json()["error"]["message"]


def test_t21_wildcard_host_allows_the_servers_addresses_only():
    """Browsers take 0.0.0.0 for this machine, so a page of another site could use it."""
    everywhere = "0.0.0.0"  # noqa: S104 - with a key, on a free port
    with standing(example_app(host=everywhere, keys=(KEY,))) as server, asking(server.url) as client:
        assert client.get("/health").status_code == 200
        for host in (everywhere, f"{everywhere}:80", "[::]", "evil.com"):
            assert client.get("/health", headers={"host": host}).status_code == 421


@pytest.fixture(scope="module")
def locked():
    app = example_app(keys=(KEY, OTHER_KEY), read_only_keys=(READ_KEY,))
    with standing(app) as server, asking(server.url) as client:
        yield app, client


WRONG = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer wrong"},
    {"authorization": KEY},
    {"authorization": f"Basic {KEY}"},
    {"authorization": f"Bearer {KEY}x"},
    {"authorization": f"Bearer {KEY[:-1]}"},
    {"authorization": f"Bearer {KEY.upper()}"},
    {"authorization": f"Bearer {KEY} {KEY}"},
    {"x-api-key": ""},
    {"x-api-key": "wrong"},
    {"x-api-key": f"Bearer {KEY}"},
    {"x-api-key": "wrong", "authorization": f"Bearer {KEY}"},
    {"cookie": f"key={KEY}"},
    {"authorization": f"Basic {READ_KEY}"},
    {"x-api-key": READ_KEY[:-1]},
    {"x-api-key": READ_KEY, "authorization": f"Bearer {KEY}"},
]


def every_route(app) -> list[tuple[str, str]]:
    """Every method and address of an app: found, not listed, so that none can be forgotten."""
    return [
        (method, str(context.path).replace("{name}", "a"))
        for context in iter_route_contexts(app.routes)
        for method in sorted(context.methods or ())
    ]


def test_t22_every_route_but_two_needs_a_key(locked):
    app, client = locked
    routes = every_route(app)
    assert len(routes) > 10
    for method, path in [*routes, ("GET", "/nothing"), ("DELETE", "/health"), ("POST", "/ready"), ("GET", "/health/")]:
        for headers in WRONG:
            answer = client.request(method, path, headers=headers)
            if method == "GET" and path in ("/health", "/ready"):
                assert answer.status_code == 200
            else:
                assert answer.status_code == 401, (method, path, headers)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert method == "HEAD" or answer.json()["error"]["type"] == "authentication_error"


@pytest.fixture(scope="module")
def locked_service():
    """The models' own routes and the studio's, with keys."""
    settings = ServingSettings(port=0, keys=(KEY,), read_only_keys=(READ_KEY,))
    app = service({"gpt": Generator(generator_bundle())}, settings, more_routers=routes.routers)
    with standing(app) as server, asking(server.url) as client:
        yield app, client


@pytest.mark.parametrize("which", ["locked", "locked_service"])
def test_t22_read_only_key_is_good_for_get_and_head_only(which, request):
    """GET passes (the route decides what it gets), everything else is refused with a reason."""
    app, client = request.getfixturevalue(which)
    routes = [route for route in every_route(app) if route[1] not in ("/v1/endless",)]
    assert len(routes) > 10
    for method, path in [*routes, ("DELETE", "/nothing"), ("POST", "/health"), ("OPTIONS", "/metrics")]:
        for headers in ({"authorization": f"Bearer {READ_KEY}"}, {"x-api-key": READ_KEY}):
            answer = client.request(method, path, headers=headers)
            if method in ("GET", "HEAD"):
                assert answer.status_code in (200, 400, 404), (method, path)
            else:
                assert answer.status_code == 403, (method, path)
                assert answer.json()["error"]["code"] == "read_only_key"
                assert "--api-key" in answer.json()["error"]["message"]


def test_t22_model_routes_need_a_key(locked_service):
    app, client = locked_service
    for method, path in every_route(app):
        for headers in ({}, {"x-api-key": ""}, {"x-api-key": "wrong"}, {"authorization": f"Basic {KEY}"}):
            expected = 200 if (method, path) in [("GET", "/health"), ("GET", "/ready")] else 401
            assert client.request(method, path, headers=headers).status_code == expected, (method, path, headers)


def test_t22_key_in_the_url_is_ignored(locked):
    _, client = locked
    assert client.get(f"/v1/things/a?api_key={KEY}&key={KEY}").status_code == 401


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
def test_t22_right_keys_pass_and_tell_clients_apart(locked, key):
    _, client = locked
    by_bearer = client.get("/v1/client", headers={"authorization": f"bearer {key}"}).json()["client_id"]
    by_header = client.get("/v1/client", headers={"x-api-key": key}).json()["client_id"]
    assert by_bearer == by_header
    assert by_bearer.startswith("key-")
    assert key not in by_bearer


def test_t22_keys_are_in_no_log_and_no_schema(locked, caplog):
    app, client = locked
    with caplog.at_level(logging.DEBUG):
        for path in ("/v1/things/a", f"/v1/things/{'a' * 70}", f"/v1/things/a?api_key={KEY}"):
            client.get(path, headers={"authorization": f"Bearer {KEY}"})
            client.post(path, headers={"authorization": f"Bearer {READ_KEY}"})
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    assert any(line.startswith("GET /v1/things/a 200") for line in ours)
    assert KEY not in "".join(ours)
    assert READ_KEY not in "".join(ours)
    assert READ_KEY not in repr(app.settings) + str(vars(app))
    assert "api_key" not in "".join(ours)
    assert KEY not in repr(app.settings)
    assert KEY not in str(vars(app))


@pytest.mark.parametrize("key", ["short", "with a blank in it", "línea-larga-ñ", "tab\tinside-it"])
def test_t22_unusable_key_is_refused_at_the_start(key):
    with pytest.raises(SettingsError, match="--api-key") as caught:
        ServingSettings(keys=(key,))
    assert key not in str(caught.value)
    with pytest.raises(SettingsError, match="--read-only-key") as caught:
        ServingSettings(keys=(KEY,), read_only_keys=(key,))
    assert key not in str(caught.value)


def test_t22_public_pages_need_no_key_and_nothing_else_does(tmp_path):
    from sightline.serving.http import create_app

    from .example import example_router

    settings = ServingSettings(port=0, keys=(KEY,))
    app = create_app(settings, routers=[example_router()], public_paths=["/static/index.html"])
    (tmp_path / "index.html").write_text("shell")
    (tmp_path / "other.html").write_text("secret")
    app.mount("/static", StaticFiles(directory=tmp_path))
    with standing(app) as server, asking(server.url) as client:
        assert client.get("/static/index.html").text == "shell"
        assert client.post("/static/index.html").status_code == 401
        assert client.get("/static/other.html").status_code == 401
        assert client.get("/static/index.html/../other.html").status_code == 401


ORIGINS = [
    "http://evil.com",
    "https://evil.com:443",
    "null",
    "http://localhost.evil.com",
    "http://127.0.0.1:1",
    "file://",
    "",
    "http://notes.example",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_t23_other_origins_can_neither_send_nor_read(client, origin, method):
    headers = {"origin": origin, "access-control-request-method": "POST", "content-type": "application/json"}
    answer = client.request(method, "/v1/echo", headers=headers, content=b'{"text": "a"}')
    assert answer.status_code == (405 if method == "GET" else 403)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_t23_own_origin_is_allowed(client, url):
    for headers in ({"origin": url}, {"sec-fetch-site": "same-origin"}, {}):
        assert client.post("/v1/echo", json={"text": "a"}, headers=headers).status_code == 200


def test_t23_hidden_origin_is_refused(client):
    assert client.post("/v1/echo", json={"text": "a"}, headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_t23_form_of_another_origin_is_refused(client):
    """Content types that a page can send without a preflight: none is JSON."""
    for kind in ("text/plain", "multipart/form-data; boundary=a", "application/x-www-form-urlencoded"):
        answer = client.post("/v1/echo", content=b'{"text": "a"}', headers={"content-type": kind})
        assert answer.status_code == 415


def test_t23_allowed_origin_may_send_and_read_and_no_other():
    allowed = "https://notes.example"
    with standing(example_app(allowed_origins=(allowed,), keys=(KEY,))) as server, asking(server.url) as client:
        ask = {"origin": allowed, "access-control-request-method": "POST"}
        preflight = client.options("/v1/echo", headers=ask)
        headers = {"origin": allowed, "x-api-key": KEY}
        answer = client.post("/v1/echo", json={"text": "a"}, headers=headers)
        no_key = client.post("/v1/echo", json={"text": "a"}, headers={"origin": allowed})
        others = [client.options("/v1/echo", headers={**ask, "origin": origin}) for origin in ORIGINS]
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == allowed
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert answer.status_code == 200
    assert no_key.status_code == 401
    for one in (preflight, answer, no_key):
        assert one.headers["access-control-allow-origin"] == allowed
        assert one.headers["vary"] == "origin"
        assert "access-control-allow-credentials" not in one.headers
    assert {other.status_code for other in others} == {403}


@pytest.mark.parametrize("origin", ["*", "notes.example", "https://notes.example/page", "null"])
def test_t23_origin_must_be_named_in_full(origin):
    with pytest.raises(SettingsError, match="--allowed-origin"):
        ServingSettings(allowed_origins=(origin,))


def test_t24_every_response_has_the_security_headers(client, url):
    answers = [client.get(path) for path in ("/health", "/openapi.json", "/metrics", "/nothing", "/v1/echo")]
    answers.append(client.post("/v1/echo", json={"text": "a"}))
    answers.append(client.post("/v1/stream", json={"text": "a"}))
    heads = [{name.lower(): value for name, value in answer.headers.items()} for answer in answers]
    for raw in (b"junk\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", post(b"", headers=b"X: a\r\n" * 70)):
        lines = asked(url, raw).partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        heads.append({name.lower(): value for name, _, value in (line.partition(": ") for line in lines)})
    for head in heads:
        policy = head["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'self'"
        assert {"object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "script-src 'self'"} <= set(policy)
        assert "unsafe" not in head["content-security-policy"]
        assert head["x-content-type-options"] == "nosniff"
        assert head["referrer-policy"] == "no-referrer"
        assert head["cross-origin-opener-policy"] == "same-origin"
        assert head["cache-control"] == "no-store"
        assert len(head["x-request-id"]) == 16
        assert "server" not in head
    assert len({head["x-request-id"] for head in heads}) == len(heads)


def test_t14_requests_per_minute_are_counted_for_each_key():
    app = example_app(limits=Limits(requests_per_minute=3), keys=(KEY, OTHER_KEY))
    with standing(app) as server, asking(server.url) as client:
        mine = [client.get("/v1/things/a", headers={"x-api-key": KEY}) for _ in range(4)]
        other = client.get("/v1/things/a", headers={"x-api-key": OTHER_KEY})
        health = [client.get("/health").status_code for _ in range(5)]
    assert [answer.status_code for answer in mine] == [200, 200, 200, 429]
    assert int(mine[3].headers["retry-after"]) == 20
    assert "--max-requests-per-minute" in mine[3].json()["error"]["message"]
    assert other.status_code == 200
    assert health == [200] * 5


def test_t14_tokens_per_minute_are_counted_for_each_address():
    with standing(example_app(limits=Limits(tokens_per_minute=100))) as server, asking(server.url) as client:
        answers = [
            client.get("/v1/charge", params={"tokens": 60}, headers={"x-forwarded-for": f"1.1.1.{n}"}) for n in (1, 2)
        ]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert "--max-tokens-per-minute" in answers[1].json()["error"]["message"]
    assert int(answers[1].headers["retry-after"]) == 12
