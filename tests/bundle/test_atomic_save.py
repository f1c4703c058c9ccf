"""A save that dies at any instant leaves the old model or the new one."""

import errno
import os
import threading
from pathlib import Path

import pytest
import torch

from sightline.bundle import Bundle, load, save, weights
from sightline.errors import SightlineError

from .tiny import TOKENIZER, tiny_model

OLD, NEW = Bundle(tiny_model(), TOKENIZER, card="old"), Bundle(tiny_model(d_model=12), TOKENIZER, card="new")
SYSTEM_CALLS = ("open", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink", "close", "chmod")
MORE_CALLS = 80
"""An upper bound on the calls of one save: the tests end when a save has survived."""


class Crash:
    """Calls `die` just before the n-th thing that a save does to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, die) -> None:
        self.left, self.die, self.reached = n, die, False
        for name in SYSTEM_CALLS:
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))
        monkeypatch.setattr(Path, "open", self.counted(Path.open))
        monkeypatch.setattr(weights, "save_file", self.counted(weights.save_file))

    def counted(self, call):
        def instead(*args, **kwargs):
            self.left -= 1
            if self.left == 0:
                self.reached = True
                self.die()
            return call(*args, **kwargs)

        return instead


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def which(folder: Path) -> str:
    bundle = load(folder)
    expected = {"old": OLD, "new": NEW}[bundle.card]
    assert bundle.model.config == expected.model.config
    weights_of = [list(b.model.parameters()) for b in (bundle, expected)]
    assert all(torch.equal(a, b) for a, b in zip(*weights_of, strict=True))
    return bundle.card


def killed_at(n: int, folder: Path) -> bool:
    """Save the new model in a child that dies at its n-th call; tell whether it died."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            Crash(patch, n, lambda: os._exit(9))
            save(NEW, folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def problem_of(call) -> str | None:
    try:
        call()
    except SightlineError as error:
        return str(error)
    return None


def leftovers(parent: Path) -> list[str]:
    return [path.name for path in parent.iterdir() if ".tmp-" in path.name]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_kill_at_every_call_leaves_the_old_or_the_new_model(tmp_path):
    seen = []
    for n in range(1, MORE_CALLS):
        folder = tmp_path / str(n) / "model"
        save(OLD, folder)
        if not killed_at(n, folder):
            break
        seen.append(which(folder))
        save(NEW, folder)
        assert which(folder) == "new"
        assert not leftovers(folder.parent)
    assert len(seen) > 20
    assert seen == sorted(seen, reverse=True)  # old … old new … new
    assert set(seen) == {"old", "new"}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_second_kill_after_a_first_leaves_a_model_too(tmp_path):
    """The state between the two renames must survive the next save's own death."""
    save(OLD, tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "model.tmp-old")
    (tmp_path / "model.tmp-new").mkdir()
    assert which(tmp_path / "model") == "old"
    for n in range(1, MORE_CALLS):
        state = tmp_path / str(n)
        save(OLD, state / "model")
        (state / "model").rename(state / "model.tmp-old")
        if not killed_at(n, state / "model"):
            break
        assert which(state / "model") in ("old", "new")
    assert n > 20


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_kill_during_a_first_save_leaves_nothing_that_looks_like_a_model(tmp_path):
    for n in range(1, MORE_CALLS):
        folder = tmp_path / str(n) / "model"
        if not killed_at(n, folder):
            break
        if folder.exists():
            assert which(folder) == "new"
    assert which(folder) == "new"


def test_failure_at_every_call_keeps_a_model_and_is_said_in_one_line(tmp_path):
    for n in range(1, MORE_CALLS):
        folder = tmp_path / str(n) / "model"
        save(OLD, folder)
        with pytest.MonkeyPatch.context() as patch:
            crash = Crash(patch, n, no_space)
            problem = problem_of(lambda: save(NEW, folder))  # noqa: B023
        assert problem in (None, f"could not save the model as {folder}: No space left on device")
        which(folder)
        if not crash.reached:
            break
        save(NEW, folder)
        assert not leftovers(folder.parent)
    assert n > 20


def test_interrupt_between_the_renames_puts_the_old_model_back(tmp_path, monkeypatch):
    save(OLD, tmp_path / "model")
    rename = Path.rename

    def interrupted(self, target):
        if self.name.endswith(".tmp-new"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(NEW, tmp_path / "model")
    assert which(tmp_path / "model") == "old"
    assert not leftovers(tmp_path)


def test_reader_beside_a_writer_always_gets_one_whole_model(tmp_path):
    save(OLD, tmp_path / "model")
    done = threading.Event()

    def write():
        for i in range(30):
            save(NEW if i % 2 else OLD, tmp_path / "model")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    loads = 0
    while not done.is_set():
        which(tmp_path / "model")
        loads += 1
    writer.join()
    assert loads > 0
