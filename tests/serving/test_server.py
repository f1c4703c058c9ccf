"""Startup and shutdown of the server: its address, and the requests in progress at shutdown (T18)."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sightline.errors import RefusedError, SettingsError, SightlineError
from sightline.serving.http import Lifecycle, Limits, ServingSettings, bind, create_app, url_of

from .example import Witness, example_app
from .standing import standing
from .wire import PATIENCE, asking, until

KEY = "correct-horse-battery"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - bound for a moment, on a free port
HERE = Path(__file__).parent


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_own_machine_is_served_with_or_without_a_key(host, keys):
    with bind(ServingSettings(host=host, port=0, keys=keys)) as taken:
        assert url_of(taken).startswith("http://127.0.0.1:")


@pytest.mark.parametrize("host", [EVERYWHERE, "::"])
def test_other_machines_are_not_served_without_a_key(host):
    with pytest.raises(RefusedError, match=r"--api-key, or .* --allow-unauthenticated"):
        bind(ServingSettings(host=host, port=0))


@pytest.mark.parametrize("settings", [{"keys": (KEY,)}, {"allow_unauthenticated": True}])
def test_other_machines_are_served_with_a_key_or_when_allowed(settings):
    with bind(ServingSettings(host=EVERYWHERE, port=0, **settings)) as taken:
        assert url_of(taken).startswith("http://127.0.0.1:")


def test_responses_are_sent_without_delay():
    """A socket without an explicit protocol gets no TCP_NODELAY from asyncio: 45 ms instead of 1 for every response."""
    with bind(ServingSettings(port=0)) as taken:
        assert taken.proto == socket.IPPROTO_TCP


def test_port_in_use_is_reported():
    with bind(ServingSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SightlineError, match=f"port {port} is in use.*--port"):
            bind(ServingSettings(port=port))


def test_unknown_host_is_reported():
    with pytest.raises(RefusedError, match="host not found"):
        bind(ServingSettings(host="no such host", port=0))


def test_host_of_another_machine_is_reported():
    with pytest.raises(SightlineError, match="not an address of this machine"):
        bind(ServingSettings(host="192.0.2.1", port=0, keys=(KEY,)))


def test_forbidden_port_is_reported(monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(SightlineError, match="choose one above 1023"):
        bind(ServingSettings(port=80))


@pytest.mark.parametrize("port", [-1, 65536])
def test_port_out_of_range_is_refused(port):
    with pytest.raises(SettingsError, match="--port"):
        ServingSettings(port=port)


def test_server_that_is_loading_is_not_ready():
    lifecycle = Lifecycle(loaded=False)
    with standing(create_app(ServingSettings(port=0), lifecycle=lifecycle)) as server, asking(server.url) as client:
        before = client.get("/ready")
        lifecycle.loaded = True
        after = client.get("/ready")
        assert client.get("/health").json() == {"status": "ok"}
    assert before.status_code == 503
    assert before.json()["error"]["code"] == "loading"
    assert "retry-after" in before.headers
    assert after.json() == {"status": "ready"}


def test_t18_shutdown_cancels_what_exceeds_its_timeout():
    """Meanwhile new requests are refused; the shutdown timeout starts at the next tick."""
    witness, limits = Witness(), Limits(shutdown_timeout=3600, request_timeout=1e9, keep_alive_timeout=1e9)
    app = example_app(witness, limits=limits)
    with standing(app) as server, asking(server.url) as client, ThreadPoolExecutor() as aside:
        working = aside.submit(client.post, "/v1/slow", json={"text": "a"})
        witness.until(lambda: witness.begun == 1)
        app.lifecycle.stopping = True  # this is all that a signal does
        server.advance(1)
        ready, refused, alive = client.get("/ready"), client.get("/v1/things/a"), client.get("/health")
        server.advance(3599)
        assert not app.lifecycle.expired
        server.advance(1)
        answer = working.result()
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "stopping")
    assert (refused.status_code, refused.headers["connection"]) == (503, "close")
    assert alive.status_code == 200
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
    assert (witness.cancelled, witness.finished) == (1, 0)


@contextmanager
def stoppable() -> Iterator[tuple[subprocess.Popen, httpx.Client]]:
    """A server in a process of its own, whose endpoint runs until it reads a line, and a client of it."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, str(HERE / "stoppable.py")], text=True, **pipes) as process:
        try:
            with asking(process.stdout.readline().strip()) as client:
                yield process, client
        finally:
            process.kill()


def ended(process: subprocess.Popen) -> str:
    """Wait for a process to exit with code 0, and return its log."""
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    return log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_t18_shutdown_lets_requests_finish_and_takes_no_more(number):
    with stoppable() as (process, client), ThreadPoolExecutor() as aside:
        working = aside.submit(client.get, "/v1/work")
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        assert until(lambda: client.get("/ready").status_code == 503)
        ready, refused, alive = client.get("/ready"), client.get("/v1/work"), client.get("/health")
        process.stdin.write("enough\n")
        process.stdin.flush()
        answer = working.result()
        log = ended(process)
    assert ready.json()["error"]["code"] == "stopping"
    assert (refused.status_code, refused.headers["connection"]) == (503, "close")
    assert alive.status_code == 200
    assert answer.json() == {"work": "done"}
    assert "GET /v1/work 200" in log


def test_t18_second_signal_ends_the_waiting():
    with stoppable() as (process, client), ThreadPoolExecutor() as aside:
        working = aside.submit(client.get, "/v1/work")
        assert process.stdout.readline() == "working\n"
        process.terminate()
        assert until(lambda: client.get("/ready").status_code == 503)
        process.terminate()
        answer = working.result()
        ended(process)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")


def test_t18_idle_server_exits_at_once_and_leaves_no_child():
    """Its timeouts are an hour, so it does not wait for any of them."""
    with stoppable() as (process, client):
        assert client.get("/health").status_code == 200  # a connection that stays open
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert not children.exists() or children.read_text() == ""
        process.terminate()
        ended(process)


def test_serving_is_not_imported_before_it_is_used():
    code = (
        "import sightline, sightline.serving.http.settings, sys; "
        "print([name for name in ('fastapi', 'pydantic', 'uvicorn') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert run.stdout == "[]\n"
