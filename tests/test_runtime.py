"""What a process sets about itself."""

import random
import subprocess
import sys

import pytest
import torch

from sightline import runtime


def test_seed_everything_starts_all_generators_alike():
    def draw():
        runtime.seed_everything(7)
        return random.random(), torch.rand(3).tolist()  # noqa: S311 - this is what is tested

    assert draw() == draw()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_kept_memory_is_used_again():
    """A large tensor made again and again must not touch fresh pages each time."""
    program = """
import resource, torch
from sightline.runtime import keep_freed_memory
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
make = lambda: [torch.ones(10_000_000) for _ in range(3)] and None
if KEEP: assert keep_freed_memory()
for _ in range(12): before = faults(); make()
print(faults() - before)
"""

    def page_faults(*, keep: bool) -> int:
        words = [sys.executable, "-c", program.replace("KEEP", str(keep))]
        return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    assert page_faults(keep=True) * 10 < page_faults(keep=False)


def test_use_threads_reaches_a_torch_that_is_loaded_already(monkeypatch):
    before = torch.get_num_threads()
    for name in runtime.THREAD_VARIABLES:
        monkeypatch.setenv(name, "9")  # so that it is put back afterwards
    runtime.use_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
