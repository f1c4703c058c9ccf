"""The studio as a person gets to it: an address at once, a browser where there is one to open, an end by a signal."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx
import pytest

from pipelines.tiny import generator_bundle
from run.small_demo import small_demo
from sightline.bundle import save

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
                if "/health" in line:
                    break
            [place] = [line for line in said if line.startswith("The studio is at ")]
            yield process, re.search(r"http://\S+", place).group(), said
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0


def browser(folder):
    """A browser that writes down what it is given."""
    notes, program = folder / "opened", folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {notes}.new && mv {notes}.new {notes}\n')
    program.chmod(0o755)
    return f"{program} %s", notes


def given_to(notes):
    """What the browser was given, as soon as it was."""
    until = time.monotonic() + 30
    while not notes.exists() and time.monotonic() < until:
        time.sleep(0.05)
    return notes.read_text().strip()


def test_serve_says_the_studios_address_first(gpt):
    with started("serve", gpt, "--port", 0) as (_, url, said):
        assert said[0] == f"The studio is at {url}  (Ctrl-C ends it)"
        assert "<title>Sightline</title>" in httpx.get(url).text


def test_before_a_terminal_serve_opens_the_browser(gpt, tmp_path):
    name, notes = browser(tmp_path)
    with started("serve", gpt, "--port", 0, terminal=True, BROWSER=name) as (_, url, _):
        assert given_to(notes) == f"{url}/"


@pytest.mark.parametrize(
    ("more", "settings"),
    [(["--no-browser"], {"terminal": True}), ([], {"terminal": True, "CI": "true"}), ([], {"terminal": False})],
    ids=["asked not to", "under CI", "no terminal"],
)
def test_else_it_does_not(gpt, tmp_path, more, settings):
    name, notes = browser(tmp_path)
    with started("serve", gpt, "--port", 0, *more, **settings, BROWSER=name) as (_, url, _):
        assert httpx.get(f"{url}/health").status_code == 200
    assert not notes.exists()


def test_the_demo_ends_in_the_studio_at_its_example(trained, tmp_path):
    name, notes = browser(tmp_path)
    with started("demo", "--out", trained, terminal=True, BROWSER=name) as (_, url, said):
        assert given_to(notes) == f"{url}/#/watch?model=demo&text=March+14%2C+2026&to=de&beam=4"
        card = httpx.get(f"{url}/v1/models").json()["data"][0]
        assert card["id"] == "demo"
        assert card["example"] == {"text": "March 14, 2026", "to": "de"}
        assert [run["name"] for run in httpx.get(f"{url}/studio-api/runs").json()["runs"]] == ["demo"]
    assert any("phrases it has never seen" in line for line in said)


def test_the_demo_serves_without_a_terminal_too_and_where_the_usual_port_is_taken(trained):
    with socket.socket() as taken:
        with suppress(OSError):  # somebody else has it
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        with started("demo", "--out", trained) as (_, url, _):
            assert not url.endswith(":8000")
            assert httpx.get(f"{url}/health").status_code == 200


def test_the_demo_ends_by_itself_when_asked_to(trained):
    done = subprocess.run([*PROGRAM, "demo", "--out", str(trained), "--no-serve"], capture_output=True, timeout=120)
    assert done.returncode == 0
    assert b"The studio" not in done.stdout + done.stderr
