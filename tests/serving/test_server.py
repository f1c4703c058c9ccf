"""How the server begins and ends: the address it takes, and what becomes of those it serves when it stops (T18)."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sightline.errors import RefusedError, SettingsError, SightlineError
from sightline.serving import Lifecycle, ServingSettings, background, bind, create_app, url_of

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
    with pytest.raises(RefusedError, match=r"--api-key, or say --allow-unauthenticated"):
        bind(ServingSettings(host=host, port=0))


@pytest.mark.parametrize("settings", [{"keys": (KEY,)}, {"allow_unauthenticated": True}])
def test_other_machines_are_served_with_a_key_or_when_it_is_meant(settings):
    with bind(ServingSettings(host=EVERYWHERE, port=0, **settings)) as taken:
        assert url_of(taken).startswith("http://127.0.0.1:")


def test_answers_leave_at_once():
    """A socket whose protocol is not named gets no TCP_NODELAY from asyncio: 45 ms instead of 1 for every answer."""
    with bind(ServingSettings(port=0)) as taken:
        assert taken.proto == socket.IPPROTO_TCP


def test_port_in_use_is_said_plainly():
    with bind(ServingSettings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SightlineError, match=f"port {port} is in use.*--port"):
            bind(ServingSettings(port=port))


def test_host_that_is_none_is_said_plainly():
    with pytest.raises(RefusedError, match="there is no such host"):
        bind(ServingSettings(host="no such host", port=0))


def test_host_of_another_machine_is_said_plainly():
    with pytest.raises(SightlineError, match="no address of this machine"):
        bind(ServingSettings(host="192.0.2.1", port=0, keys=(KEY,)))


def test_port_that_may_not_be_used_is_said_plainly(monkeypatch):
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
    with background(create_app(ServingSettings(port=0), lifecycle=lifecycle)) as url:
        before = httpx.get(url + "/ready")
        lifecycle.loaded = True
        after = httpx.get(url + "/ready")
        assert httpx.get(url + "/health").json() == {"status": "ok"}
    assert before.status_code == 503
    assert before.json()["error"]["code"] == "loading"
    assert "retry-after" in before.headers
    assert after.json() == {"status": "ready"}


@contextmanager
def stoppable(stop_seconds: float, work_seconds: float) -> Iterator[tuple[subprocess.Popen, str]]:
    """A server in a process of its own with one request at work."""
    arguments = [sys.executable, str(HERE / "stoppable.py"), str(stop_seconds), str(work_seconds)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


class Asking(threading.Thread):
    """A client that waits for its answer."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.answer: httpx.Response | None = None
        self.start()

    def run(self) -> None:
        self.answer = httpx.get(self.url, timeout=30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_t18_stop_lets_work_finish_and_takes_no_more(number):
    with stoppable(20, 1.5) as (process, url), httpx.Client(base_url=url) as client:
        asking = Asking(url + "/v1/work")
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        while (ready := client.get("/ready")).status_code == 200:
            pass  # the signal is on its way
        refused = client.get("/v1/work")
        alive = client.get("/health")
        asking.join()
        _, log = process.communicate(timeout=10)
    assert ready.json()["error"]["code"] == "stopping"
    assert (refused.status_code, refused.headers["connection"]) == (503, "close")
    assert alive.status_code == 200
    assert asking.answer is not None
    assert asking.answer.json() == {"work": "done"}
    assert process.returncode == 0
    assert "GET /v1/work 200" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("hurry", [False, True], ids=["time is over", "second signal"])
def test_t18_stop_does_not_wait_for_ever(hurry):
    with stoppable(60 if hurry else 0.3, 300) as (process, url):
        asking = Asking(url + "/v1/work")
        assert process.stdout.readline() == "working\n"
        process.terminate()
        if hurry:
            while httpx.get(url + "/ready").status_code == 200:
                pass  # the first signal is on its way
            process.terminate()
        asking.join()
        _, log = process.communicate(timeout=10)
    assert asking.answer is not None
    assert asking.answer.status_code == 503
    assert asking.answer.json()["error"]["code"] == "stopping"
    assert process.returncode == 0
    assert "Traceback" not in log


def test_t18_idle_server_ends_at_once_and_leaves_no_child():
    with stoppable(60, 0) as (process, url), httpx.Client(base_url=url) as client:
        assert client.get("/health").status_code == 200  # a connection that stays open
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert not children.exists() or children.read_text() == ""
        process.terminate()
        assert process.wait(timeout=10) == 0


def test_serving_is_not_loaded_before_it_is_used():
    code = (
        "import sightline, sightline.serving.settings, sys; "
        "print([name for name in ('fastapi', 'pydantic', 'uvicorn') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert run.stdout == "[]\n"
