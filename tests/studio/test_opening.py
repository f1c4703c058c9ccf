"""The studio as a person gets to it: an address at once, a browser where there is one to open, an end by a signal."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from contextlib import contextmanager

import httpx
import pytest

from pipelines.tiny import generator_bundle
from runs.small_demo import small_demo
from sightline.bundle import save
from sightline.cli.serve import open_page

PATIENCE = 120
"""Seconds after which something will never come, however busy the machine is."""
PROGRAM = [sys.executable, "-m", "sightline.cli.main"]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt"
    save(generator_bundle(), folder)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of the demo that is already done."""
    return small_demo(tmp_path_factory.mktemp("runs") / "demo")


@contextmanager
def started(*arguments, terminal=False, **environment):
    """Run the program, its output to a pipe or to a terminal, until it says how to ask it: process, address, lines."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    without = {name: value for name, value in os.environ.items() if name not in ("CI", "BROWSER")}
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**without, **environment},
    )
    os.close(theirs)
    said = []
    with open(ours, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - a descriptor, not a path
        try:
            for line in lines:
                said.append(line.strip())
                if "/v1/models" in line:  # the last or the last but one
                    break
            [place] = [line for line in said if line.startswith("The studio is at ")]
            yield process, re.search(r"http://\S+", place).group(), said
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


class Browser:
    """A browser that only says what it is given."""

    def __init__(self, folder):
        said, program = folder / "said", folder / "browser"
        os.mkfifo(said)
        program.write_text(f'#!/bin/sh\necho "$1" > {said}\n')
        program.chmod(0o755)
        self.name, self.ear = f"{program} %s", os.open(said, os.O_RDONLY | os.O_NONBLOCK)

    def given(self):
        """What it was given, as soon as it was."""
        select.select([self.ear], [], [], PATIENCE)
        return os.read(self.ear, 10_000).decode().strip()

    def was_opened(self):
        return select.select([self.ear], [], [], 0)[0] != []


@pytest.fixture(scope="module")
def browsers(tmp_path_factory):
    """Make browsers."""
    made = []

    def make():
        made.append(Browser(tmp_path_factory.mktemp("browser")))
        return made[-1]

    yield make
    for one in made:
        os.close(one.ear)


@pytest.fixture(scope="module")
def piped(gpt, browsers):
    """A server that writes to no terminal, its address, what it said, and the browser that it could have opened."""
    browser = browsers()
    with started("serve", gpt, "--port", 0, BROWSER=browser.name) as (_, url, said):
        yield url, said, browser


def test_serve_says_the_studios_address_first(piped):
    url, said, _ = piped
    assert said[0] == f"The studio is at {url}  (Ctrl-C stops it)"
    assert "<title>Sightline</title>" in httpx.get(url, timeout=PATIENCE).text


def test_without_a_terminal_serve_opens_no_browser(piped):
    url, _, browser = piped
    assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
    assert not browser.was_opened()


def test_before_a_terminal_serve_opens_the_browser(gpt, browsers):
    browser = browsers()
    with started("serve", gpt, "--port", 0, terminal=True, BROWSER=browser.name) as (_, url, _):
        assert browser.given() == f"{url}/"


def test_asked_not_to_serve_opens_no_browser(gpt, browsers):
    browser = browsers()
    with started("serve", gpt, "--port", 0, "--no-browser", terminal=True, BROWSER=browser.name) as (_, url, _):
        assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
    assert not browser.was_opened()


def test_under_ci_no_browser_is_opened(monkeypatch):
    asked, pages = threading.Event(), []
    monkeypatch.setattr(webbrowser, "open", lambda url: (pages.append(url), asked.set()))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("BROWSER", "any")
    monkeypatch.setenv("CI", "true")
    assert not open_page("http://one/")
    monkeypatch.delenv("CI")
    assert open_page("http://two/")
    assert asked.wait(PATIENCE)
    assert pages == ["http://two/"]


def test_the_demo_ends_in_the_studio_with_both_models_at_a_real_sentence(trained, browsers):
    browser = browsers()
    with started("demo", "--out", trained, terminal=True, BROWSER=browser.name) as (_, url, said):
        assert browser.given() == f"{url}/#/watch?model=en-de&text=Where+is+the+station%3F&beam=4"
        cards = httpx.get(f"{url}/v1/models", timeout=PATIENCE).json()["data"]
        assert [card["id"] for card in cards] == ["en-de", "demo"]
        assert all(card["example"] == card["examples"][0] for card in cards)  # of its own validation set
        assert [run["name"] for run in httpx.get(f"{url}/studio-api/runs", timeout=PATIENCE).json()["runs"]] == ["demo"]
    assert any("unseen phrases are translated exactly right" in line for line in said)
    assert any("Wo ist der Bahnhof?" in line for line in said)


def test_the_demo_serves_without_a_terminal_too_and_where_the_usual_port_is_taken(trained):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended do not count
        try:
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        except OSError:  # somebody else has it, and may give it back any time
            is_ours = False
        else:
            is_ours = True
        with started("demo", "--out", trained) as (_, url, _):
            assert not (is_ours and url.endswith(":8000"))
            assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200


def test_the_demo_ends_by_itself_when_asked_to(trained):
    done = subprocess.run(
        [*PROGRAM, "demo", "--out", str(trained), "--no-serve"], capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0
    assert b"The studio" not in done.stdout + done.stderr
