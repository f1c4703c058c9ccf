"""`sightline serve` in a process of its own, tried with the examples it prints, stopped by a signal."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pipelines.tiny import generator_bundle, many_languages_bundle
from serving.wire import PATIENCE, asking
from sightline.bundle import save
from sightline.cli.main import main
from sightline.cli.serve import print_runs

PROGRAM = [sys.executable, "-m", "sightline.cli.main", "serve"]
LONG_TIMEOUTS = [
    word
    for option in ("header", "body", "write", "keep-alive", "request", "shutdown")
    for word in (f"--{option}-timeout", "3600")
]
"""No timeout expires while a test runs, however busy the machine is."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    save(many_languages_bundle(), root / "Phrases 2")
    save(generator_bundle(), root / "gpt")
    return root


@contextmanager
def server(*arguments, **environment):
    """Run the command; yield the process, its URL and its output lines."""
    command = [*PROGRAM, *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line.rstrip("\n"))
            if "/health" in line or ("/v1/models" in line and len([s for s in said if "curl" in s]) == 3):
                break
        url = re.search(r"http://\S+", said[0])
        yield process, url.group() if url else "", said
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        process.stderr.close()


def test_it_prints_its_address_and_working_examples(folders):
    models = (folders / "Phrases 2", f"story={folders / 'gpt'}")
    with server(*models, *LONG_TIMEOUTS) as (process, url, said), asking(url) as client:
        lines = [line.strip() for line in said if line.strip().startswith("curl ")]
        assert len(lines) == 3
        for line in lines:
            _, address, *options = shlex.split(line)
            data = options[options.index("-d") + 1] if options else None
            headers = {"content-type": "application/json"}
            answer = client.post(address, content=data, headers=headers) if data else client.get(address)
            assert answer.status_code == 200, (line, answer.text)
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["phrases-2", "story"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0


def test_running_stream_is_finished_on_shutdown(folders):
    """T18: the running stream ends with its finish reason, and the process exits by itself."""
    with server(f"story={folders / 'gpt'}", *LONG_TIMEOUTS) as (process, url, _), asking(url) as client:
        body = {"model": "story", "prompt": "the", "max_tokens": 40, "temperature": 1, "seed": 1, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            process.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert first.startswith("data: ")
        assert rest[-2:] == ["data: [DONE]", ""] or rest[-1] == "data: [DONE]"
        assert '"finish_reason": "' in "".join(rest)
        assert process.wait(timeout=PATIENCE) == 0


KEY, READ_KEY = "a-long-secret", "for-prometheus"


@pytest.fixture(scope="module")
def locked(folders):
    """A client of a server with a key of each kind, and the output of that server."""
    keys = {"SIGHTLINE_API_KEY": KEY, "SIGHTLINE_READ_ONLY_KEY": READ_KEY}
    with server(folders / "gpt", *LONG_TIMEOUTS, **keys) as (_, url, said), asking(url) as client:
        yield client, said


def test_a_key_is_needed_if_one_is_set(locked):
    client, said = locked
    assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/models", headers={"x-api-key": KEY}).status_code == 200
    assert not [key for key in (KEY, READ_KEY) if key in "".join(said)]


def test_a_read_only_key_cannot_post(locked):
    client, _ = locked
    may_read = {"authorization": f"Bearer {READ_KEY}"}
    assert "sightline_steps" in client.get("/metrics", headers=may_read).text
    body = {"model": "gpt", "prompt": "the", "max_tokens": 1}
    refused = client.post("/v1/completions", json=body, headers=may_read)
    assert refused.status_code == 403
    assert "--api-key" in refused.json()["error"]["message"]
    assert client.post("/v1/completions", json=body, headers={"x-api-key": KEY}).is_success


def test_port_in_use_is_reported_before_models_are_loaded(folders, capsys, monkeypatch):
    loaded = []
    monkeypatch.setattr("sightline.cli.serve.open_models", lambda named, **_: loaded.append(named))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(folders / "gpt"), "--port", str(port)]) == 1
    assert f"port {port} is in use" in capsys.readouterr().err
    assert loaded == []


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["nowhere"], "nowhere", 2),
        (["bad name!=gpt"], "model id 'bad name!' is invalid", 2),
        (["gpt", "--host", "0.0.0.0"], "--api-key", 2),  # noqa: S104
        (["gpt", "--api-key", "short"], "--api-key", 2),
        (["gpt", "--read-only-key", "a-long-secret"], "--read-only-key needs an --api-key", 2),
        (
            ["gpt", "--api-key", "a-long-secret", "--read-only-key", "a-long-secret"],
            "must differ from every --api-key",
            2,
        ),
        (["gpt", "--max-queue", "0"], "--max-queue", 2),
        (["a=gpt", "a=gpt"], "two models are called", 2),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(folders, monkeypatch, capsys, arguments, said, code):
    monkeypatch.chdir(folders)
    assert main(["serve", *arguments, "--port", "0"]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_runs_alone_can_be_served(tmp_path):
    """Before the folder exists: a run can be watched from its first step."""
    with server("--runs", tmp_path / "runs", "--no-browser", *LONG_TIMEOUTS) as (_, url, _), asking(url) as client:
        assert client.get("/studio-api/runs").json() == {"runs": []}
        assert client.get("/").status_code == 200


def test_runs_are_named_with_what_can_be_done(tmp_path, capsys):
    for name in ("begun", "saved"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    save(generator_bundle(), tmp_path / "saved" / "model")
    print_runs(tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        f"No model is served. 2 runs in {tmp_path}; new ones appear in the studio by themselves",
        "  begun: has no model yet",
        f"  saved: to use its model: sightline serve {tmp_path / 'saved'}",
    ]


def test_neither_model_nor_runs_is_wrong_usage(capsys):
    assert main(["serve"]) == 2
    assert "--runs DIR" in capsys.readouterr().err
