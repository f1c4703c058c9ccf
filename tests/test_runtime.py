"""Process-wide settings."""

import json
import random
import subprocess
import sys

import pytest
import torch

from sightline import runtime


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
