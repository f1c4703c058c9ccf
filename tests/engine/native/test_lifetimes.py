"""Handles of C are freed once, in the right order, and in the process that made them."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.engine.native import compiler
from sightline.engine.native.model import NativeModel

from .small import draw_texts, make_model

ROOT = Path(__file__).parents[3]


def make_native():
    model = make_model("transformer")
    arrays = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    return NativeModel(model.config, arrays, threads=2)


@pytest.fixture
def freed(monkeypatch):
    """Note what is freed, in order."""
    order = []
    functions = compiler.load_library() and make_native().library.functions
    for name in ("free_model", "free_state"):
        free = functions[name]
        monkeypatch.setitem(functions, name, lambda handle, name=name, free=free: order.append(name) or free(handle))
    gc.collect()
    order.clear()
    return order


def test_model_is_freed_after_its_states_even_in_a_cycle(freed):
    """A garbage collection has its own order; the state's memory belongs to the model."""
    model = make_native()
    gc.collect()  # the model is old, its state young
    state = model.read(draw_texts(2))
    cycle = [model, state]
    cycle.append(cycle)
    del model, state, cycle
    gc.collect()
    assert freed == ["free_state", "free_model"]


def test_joined_state_is_freed_once(freed):
    model = make_native()
    first, second = model.read(draw_texts(1)), model.read(draw_texts(2))
    first.join(second)
    del second
    assert freed == []
    del first, model
    gc.collect()
    assert freed == ["free_state", "free_model"]


FORKING = """
import os, sys
sys.path[:0] = [{tests!r}, {source!r}]
from engine.native.test_lifetimes import make_native
from engine.native.small import draw_texts
model = make_native()
state = model.read(draw_texts(3, shortest=20, longest=20))
child = os.fork()
if child == 0:
    del state, model  # helpers and their locks are the parent's
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_process_that_was_forked_leaves_its_parents_handles_alone():
    code = FORKING.format(tests=str(ROOT / "tests"), source=str(ROOT / "src"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("7", 0), done.stderr


def test_no_home_is_a_reason_in_one_line(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(compiler, "prebuilt_path", lambda: Path("/nowhere/there.so"))
    assert compiler.find_or_compile().reason == "the library could not be built: there is no home folder (~)"
