"""Threads, seed and memory are set for the process; the first signal asks it to stop, the second ends it."""

import json
import os
import random
import signal
import subprocess
import sys
import threading

import pytest
import torch

from instants import MAY_FORK, exit_code_of
from sightline import runtime
from sightline.errors import InputError
from sightline.runtime import STOP_SIGNALS, stop_on_signals


def test_seed_everything_seeds_all_generators():
    def draw():
        runtime.seed_everything(7)
        return random.random(), torch.rand(3).tolist()  # noqa: S311 - this is what is tested

    assert draw() == draw()


KEEPING = """
import gc, json, torch
from pathlib import Path
from sightline.runtime import keep_freed_memory

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024

def megabytes_given_back():
    tensors = [torch.ones(10_000_000) for _ in range(3)]
    before = resident()
    del tensors
    gc.collect()
    return before - resident()

print(json.dumps([megabytes_given_back(), keep_freed_memory(), megabytes_given_back()]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_kept():
    """Three tensors of 40 MB: given back to the system when they are gone, unless it is to be kept for the next."""
    run = subprocess.run([sys.executable, "-c", KEEPING], check=True, capture_output=True, text=True)
    usually, is_kept, then = json.loads(run.stdout)
    assert is_kept
    assert usually > 90
    assert then < 30


def test_set_num_threads_reaches_a_loaded_torch(monkeypatch):
    before = torch.get_num_threads()
    for name in runtime.THREAD_VARIABLES:
        monkeypatch.setenv(name, "9")  # so that it is restored afterwards
    runtime.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


EVERY_SIGNAL = pytest.mark.parametrize(("number", "code"), [(15, 143), (2, 130), (1, 129)])


@EVERY_SIGNAL
def test_first_signal_asks_to_stop(number, code):
    with stop_on_signals() as request:
        assert not request
        assert request.exit_code == 0
        os.kill(os.getpid(), number)
        assert request
        assert request.exit_code == code


@MAY_FORK
@EVERY_SIGNAL
def test_second_signal_ends_the_process_at_once(number, code):
    def run() -> None:
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), number)
            os._exit(7)

    assert exit_code_of(run) == code


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in STOP_SIGNALS] != before
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_handlers_are_put_back_after_a_failure():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with pytest.raises(KeyError), stop_on_signals():
        raise KeyError
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_signal_that_is_ignored_stays_ignored():
    """A run under nohup survives the end of its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not request
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_may_train_without_signals():
    requests = []

    def run() -> None:
        with stop_on_signals() as request:
            requests.append(request)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not requests[0]


@pytest.fixture
def machine(monkeypatch):
    """Let torch find these GPUs, in a process that torchrun started or not."""

    def has(*, cuda: int = 0, mps: bool = False, **variables: int) -> None:
        monkeypatch.setattr("torch.cuda.is_available", lambda: cuda > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: cuda)
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: mps)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runtime._defaults, "device", "auto")
    return has


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({}, "cpu"),
        ({"cuda": 1}, "cuda:0"),
        ({"mps": True}, "mps:0"),
        ({"cuda": 2, "mps": True}, "cuda:0"),
        ({"cuda": 4, "LOCAL_RANK": 3, "LOCAL_WORLD_SIZE": 4, "WORLD_SIZE": 8}, "cuda:3"),
        ({"cuda": 1, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2, "WORLD_SIZE": 2}, "cpu"),
        ({"mps": True, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2, "WORLD_SIZE": 2}, "cpu"),
    ],
)
def test_auto_chooses_the_best_device_there_is(found, chosen, machine):
    machine(**found)
    assert runtime.choose_device() == torch.device(chosen)


@pytest.mark.parametrize(
    ("wanted", "found", "reason"),
    [
        ("cuda", {}, "cuda cannot be used: torch finds no NVIDIA GPU here; choose cpu or auto"),
        ("mps", {"cuda": 1}, "mps cannot be used: torch finds no Apple GPU here"),
        ("cuda", {"cuda": 1, "LOCAL_WORLD_SIZE": 2}, "2 processes need a GPU each, and there are 1"),
        ("mps", {"mps": True, "WORLD_SIZE": 2}, "processes that train together need one each"),
        ("gpu", {}, "`device`: must be auto, cpu, cuda or mps, not gpu"),
    ],
)
def test_device_that_cannot_be_used_is_refused(wanted, found, reason, machine):
    machine(**found)
    with pytest.raises(InputError, match=reason):
        runtime.choose_device(wanted)


def test_default_device_is_what_auto_means(machine):
    machine(cuda=1)
    runtime.set_default_device("cpu")
    assert runtime.choose_device() == torch.device("cpu")
    assert runtime.choose_device("cuda") == torch.device("cuda:0")


def test_sums_have_as_many_bits_as_the_device():
    assert runtime.widest_float(torch.device("cpu")) == runtime.widest_float(torch.device("cuda")) == torch.float64
    assert runtime.widest_float(torch.device("mps")) == torch.float32


SPINNING = """
import os, sys
import sightline
from sightline.cli.main import main
before = os.environ.get("GOMP_SPINCOUNT")
{call}
print(before, os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        ("sightline.load", {}, "None 5000 None"),
        ("main(['info', 'nothing'])", {}, "None 5000 None"),
        ("main(['train', '--list'])", {}, "None 1000 None"),
        ("main(['train', '--list'])", {"GOMP_SPINCOUNT": "77"}, "77 77 None"),
        ("main(['train', '--list'])", {"OMP_WAIT_POLICY": "ACTIVE"}, "None None ACTIVE"),
    ],
)
def test_spinning_is_bounded_before_torch_is_loaded_unless_the_user_has_set_it(call, given, expected):
    environment = {k: v for k, v in os.environ.items() if k not in runtime.SPINNING}
    program = [sys.executable, "-c", SPINNING.format(call=call)]
    ran = subprocess.run(program, check=True, capture_output=True, text=True, env={**environment, **given})
    assert ran.stdout.splitlines()[-1] == expected


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000\n", None), ("150000 100000\n", 1), ("400000 100000\n", 4), ("", None)]
)
def test_threads_stay_within_the_limit_of_a_container(text, cores, tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(runtime, "CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert runtime.cpu_quota() == cores
    assert runtime.choose_num_threads() == (cores or 8)
