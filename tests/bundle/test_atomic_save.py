"""A save killed at any instant leaves the old model or the new one."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from instants import MAY_FORK, NthCall, Watch, exit_code_of, left_by_kills
from sightline.bundle import Bundle, load, save
from sightline.errors import SightlineError

from .tiny import TOKENIZER, tiny_model

OLD, NEW = Bundle(tiny_model(), TOKENIZER, card="old"), Bundle(tiny_model(d_model=12), TOKENIZER, card="new")
MAX_CALLS = 80
"""An upper bound on the calls of one save: the tests end when a save has survived."""


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def which(folder: Path) -> str:
    bundle = load(folder)
    expected = {"old": OLD, "new": NEW}[bundle.card]
    assert bundle.model.config == expected.model.config
    weights_of = [list(b.model.parameters()) for b in (bundle, expected)]
    assert all(torch.equal(a, b) for a, b in zip(*weights_of, strict=True))
    return bundle.card


def left_by_killed_saves(place: Path) -> list[Path]:
    """Save the new model in a folder of this place; return the place as a kill at each instant would have left it."""
    return left_by_kills(lambda: save(NEW, place / "model"), place, place.parent)


def problem_of(call) -> str | None:
    try:
        call()
    except SightlineError as error:
        return str(error)
    return None


def leftovers(parent: Path) -> list[str]:
    return [path.name for path in parent.iterdir() if ".tmp-" in path.name]


def test_kill_at_every_call_leaves_the_old_or_the_new_model(tmp_path):
    save(OLD, tmp_path / "place" / "model")
    seen = []
    for left in left_by_killed_saves(tmp_path / "place"):
        seen.append(which(left / "model"))
        save(NEW, left / "model")
        assert which(left / "model") == "new"
        assert not leftovers(left)
    assert len(seen) > 20
    assert seen == sorted(seen, reverse=True)  # old … old new … new
    assert set(seen) == {"old", "new"}


def test_second_kill_after_a_first_leaves_a_model_too(tmp_path):
    """The state between the two renames must survive the next save's own death."""
    save(OLD, tmp_path / "place" / "model")
    (tmp_path / "place" / "model").rename(tmp_path / "place" / "model.tmp-old")
    (tmp_path / "place" / "model.tmp-new").mkdir()
    assert which(tmp_path / "place" / "model") == "old"
    seen = [which(left / "model") for left in left_by_killed_saves(tmp_path / "place")]
    assert len(seen) > 20
    assert set(seen) == {"old", "new"}


def test_kill_during_a_first_save_leaves_nothing_that_looks_like_a_model(tmp_path):
    everything_left = left_by_killed_saves(tmp_path / "place")
    assert len(everything_left) > 20
    assert {which(left / "model") for left in everything_left if (left / "model").exists()} == {"new"}


@MAY_FORK
@pytest.mark.parametrize("n", [4, 20, 28])
def test_process_that_is_really_killed_leaves_just_that(n, tmp_path):
    """The tests above kill nobody: here a child is gone, at a few of these instants."""
    for name in ("killed", "copied"):
        save(OLD, tmp_path / name / "model")

    def die() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Watch(patch, NthCall(n, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            save(NEW, tmp_path / "killed" / "model")

    assert exit_code_of(die) == -signal.SIGKILL
    places = (tmp_path / "killed", left_by_killed_saves(tmp_path / "copied")[n - 1])
    killed, copied = (sorted(path.relative_to(place) for path in place.rglob("*")) for place in places)
    assert killed == copied
    assert which(places[0] / "model") == which(places[1] / "model")


def test_failure_at_every_call_keeps_a_model_and_is_reported_in_one_line(tmp_path):
    for n in range(1, MAX_CALLS):
        folder = tmp_path / str(n) / "model"
        save(OLD, folder)
        with pytest.MonkeyPatch.context() as patch:
            failure = NthCall(n, no_space)
            Watch(patch, failure)
            problem = problem_of(lambda: save(NEW, folder))  # noqa: B023
        assert problem in (None, f"could not save the model as {folder}: No space left on device")
        which(folder)
        if not failure.was_reached:
            break
        save(NEW, folder)
        assert not leftovers(folder.parent)
    assert n > 20


def test_interrupt_between_the_renames_restores_the_old_model(tmp_path, monkeypatch):
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


def test_reader_gets_one_whole_model_at_every_instant_of_a_save(tmp_path):
    save(OLD, tmp_path / "model")
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        Watch(patch, lambda _: seen.append(which(tmp_path / "model")))
        save(NEW, tmp_path / "model")
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}


def test_reader_that_is_overtaken_by_a_save_gets_one_whole_model(tmp_path):
    """A whole save comes between two calls of the reader, wherever that is."""
    seen = set()
    for n in range(1, MAX_CALLS):
        save(OLD, tmp_path / "model")
        with pytest.MonkeyPatch.context() as patch:
            overtaken = NthCall(n, lambda: save(NEW, tmp_path / "model"))
            Watch(patch, overtaken)
            seen.add(which(tmp_path / "model"))
        if not overtaken.was_reached:
            break
    assert n > 5
    assert seen == {"old", "new"}


@pytest.mark.slow
def test_reader_beside_a_writer_always_gets_one_whole_model(tmp_path):
    save(OLD, tmp_path / "model")
    done = threading.Event()

    def write():
        for i in range(300):
            save(NEW if i % 2 else OLD, tmp_path / "model")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        which(tmp_path / "model")
    writer.join()
