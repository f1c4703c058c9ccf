"""A save that dies or fails at any instant leaves the newest checkpoint or the one before: T2 and T3."""

import errno
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sightline.bundle import weights
from sightline.errors import SightlineError
from sightline.training.checkpoint import resume, save

from .toy import fingerprint, new_state

MAY_FORK = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SYSTEM_CALLS = ("open", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink", "close", "chmod", "scandir")
MORE_CALLS = 120
"""An upper bound on the calls of one save: the tests end when a save has survived."""
FEW_TENSORS = {"bias": False, "positions": "none"}
FULL = "No space left on device"


class Crash:
    """Calls `die` just before the n-th thing that a save does to the disk, or in the middle of a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, die) -> None:
        self.left, self.die, self.reached = n, die, False
        for name in SYSTEM_CALLS:
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))
        monkeypatch.setattr(Path, "open", self.counted(Path.open))
        monkeypatch.setattr(Path, "write_text", self.cut_off(Path.write_text, place=0))
        monkeypatch.setattr(weights, "save_file", self.cut_off(self.counted(weights.save_file), place=1))

    def count(self) -> bool:
        self.left -= 1
        self.reached |= self.left == 0
        return self.left == 0

    def counted(self, call):
        def instead(*args, **kwargs):
            if self.count():
                self.die()
            return call(*args, **kwargs)

        return instead

    def cut_off(self, call, *, place: int):
        def instead(*args, **kwargs):
            result = call(*args, **kwargs)
            if self.count():
                path = Path(args[place])
                os.truncate(path, path.stat().st_size // 2)
                self.die()
            return result

        return instead


def state_at(step: int):
    state = new_state(**FEW_TENSORS)
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.fill_(step)
            parameter.grad = torch.ones_like(parameter)
    state.optimizer.update(step, learning_rate=0.1)
    state.progress = replace(state.progress, step=step)
    return state


STATES = {step: state_at(step) for step in (1, 2, 3)}


def no_space() -> None:
    raise OSError(errno.ENOSPC, FULL)


def killed_at(n: int, folder: Path, *, keep_last: int) -> bool:
    """Save step 3 in a child that dies at its n-th call; tell whether it died."""
    child = os.fork()
    if child == 0:
        with pytest.MonkeyPatch.context() as patch:
            Crash(patch, n, lambda: os._exit(9))
            save(STATES[3], folder, keep_last=keep_last)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def recovered(folder: Path) -> int:
    """Resume as a new process would; return the step, everything of which must be there, and nothing else."""
    state = new_state(seed=9, **FEW_TENSORS)
    resumed = resume(state, folder)
    assert resumed is not None
    assert resumed.notes == ()
    assert fingerprint(state) == fingerprint(STATES[state.progress.step])
    assert not [path.name for path in folder.iterdir() if ".tmp-" in path.name]
    return state.progress.step


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory) -> Path:
    """A folder with steps 1 and 2, to be copied."""
    folder = tmp_path_factory.mktemp("two")
    for step in (1, 2):
        save(STATES[step], folder, keep_last=2)
    return folder


@MAY_FORK
def test_kill_at_every_call_recovers_this_step_or_the_one_before(tmp_path, two_checkpoints):
    seen = []
    for n in range(1, MORE_CALLS):
        folder = shutil.copytree(two_checkpoints, tmp_path / str(n))
        if not killed_at(n, folder, keep_last=1):
            break
        seen.append(recovered(folder))
        save(STATES[3], folder, keep_last=1)
        assert recovered(folder) == 3
    assert len(seen) > 30
    assert seen == sorted(seen)  # 2 … 2 3 … 3
    assert set(seen) == {2, 3}


@MAY_FORK
def test_kill_while_a_step_is_replaced_recovers_one_or_the_other(tmp_path):
    """The newest checkpoint is the only one, and the save would put another in its place."""
    for n in range(1, MORE_CALLS):
        folder = tmp_path / str(n)
        save(STATES[3], folder, keep_last=1)
        if not killed_at(n, folder, keep_last=1):
            break
        assert recovered(folder) == 3
    assert n > 30


@MAY_FORK
def test_kill_during_the_first_save_leaves_nothing_or_all_of_it(tmp_path):
    for n in range(1, MORE_CALLS):
        folder = tmp_path / str(n)
        if not killed_at(n, folder, keep_last=1):
            break
        assert resume(new_state(**FEW_TENSORS), folder) is None or recovered(folder) == 3
    assert n > 30


def test_failure_at_every_call_keeps_a_checkpoint_and_is_said_in_one_line(tmp_path, two_checkpoints):
    for n in range(1, MORE_CALLS):
        folder = shutil.copytree(two_checkpoints, tmp_path / str(n))
        problem = None
        with pytest.MonkeyPatch.context() as patch:
            crash = Crash(patch, n, no_space)
            try:
                save(STATES[3], folder, keep_last=2)
            except SightlineError as error:
                problem = error
        if problem is not None:
            path = folder / "step-00000003"
            sentence = f"could not save the checkpoint {path}: {FULL}; earlier ones are kept: put this right and resume"
            assert (str(problem), problem.exit_code) == (sentence, 1)
        assert recovered(folder) in ((2, 3) if problem else (3,))
        if not crash.reached:
            break
        save(STATES[3], folder, keep_last=2)
        assert recovered(folder) == 3
    assert n > 30


@MAY_FORK
@pytest.mark.parametrize("most", [0, 100, 3000])
def test_full_disk_keeps_the_checkpoint_before(tmp_path, two_checkpoints, most):
    """Files may not grow beyond a few bytes: the system itself refuses, in the middle of a write."""
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    say, tell = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            save(STATES[3], folder, keep_last=2)
        except SightlineError as error:
            os.write(tell, str(error).encode())
            os._exit(error.exit_code)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    line = os.read(say, 10_000).decode()
    assert line.startswith(f"could not save the checkpoint {folder / 'step-00000003'}: ")
    assert "File too large" in line
    assert "\n" not in line
    assert recovered(folder) == 2
