"""A save that dies or fails at any instant leaves the newest checkpoint or the one before: T2 and T3."""

import errno
import os
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from instants import MAY_FORK, NthCall, Watch, exit_code_of, left_by_kills
from sightline.errors import SightlineError
from sightline.training.checkpoint import resume, save_checkpoint

from .toy import fingerprint, new_state

MORE_CALLS = 120
"""An upper bound on the calls of one save: the tests end when a save has survived."""
FEW_TENSORS = {"bias": False, "positions": "none"}
FULL = "No space left on device"


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


def left_by_killed_saves(folder: Path, copies: Path, *, keep_checkpoints: int) -> list[Path]:
    """Save step 3; return the folder as a kill at each instant would have left it."""
    return left_by_kills(lambda: save_checkpoint(STATES[3], folder, keep_checkpoints=keep_checkpoints), folder, copies)


def recovered(folder: Path) -> int:
    """Resume as a new process would; return the step, everything of which must be there, and nothing else."""
    state = new_state(seed=9, **FEW_TENSORS)
    resumed = resume(state, folder)
    assert resumed is not None
    assert resumed.notes == ()
    assert fingerprint(state) == fingerprint(STATES[state.progress.step])
    assert not [path.name for path in folder.iterdir() if ".tmp-" in path.name]
    return state.progress.step


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory) -> Path:
    """A folder with steps 1 and 2, to be copied."""
    folder = tmp_path_factory.mktemp("two")
    for step in (1, 2):
        save_checkpoint(STATES[step], folder, keep_checkpoints=2)
    return folder


def test_kill_at_every_call_recovers_this_step_or_the_one_before(tmp_path, two_checkpoints):
    seen = []
    for left in left_by_killed_saves(shutil.copytree(two_checkpoints, tmp_path / "run"), tmp_path, keep_checkpoints=1):
        seen.append(recovered(left))
        save_checkpoint(STATES[3], left, keep_checkpoints=1)
        assert recovered(left) == 3
    assert len(seen) > 30
    assert seen == sorted(seen)  # 2 … 2 3 … 3
    assert set(seen) == {2, 3}


def test_kill_while_a_step_is_replaced_recovers_one_or_the_other(tmp_path):
    """The newest checkpoint is the only one, and the save would put another in its place."""
    save_checkpoint(STATES[3], tmp_path / "run", keep_checkpoints=1)
    everything_left = left_by_killed_saves(tmp_path / "run", tmp_path, keep_checkpoints=1)
    assert len(everything_left) > 30
    assert {recovered(left) for left in everything_left} == {3}


def test_kill_during_the_first_save_leaves_nothing_or_all_of_it(tmp_path):
    everything_left = left_by_killed_saves(tmp_path / "run", tmp_path, keep_checkpoints=1)
    assert len(everything_left) > 30
    for left in everything_left:
        assert resume(new_state(**FEW_TENSORS), left) is None or recovered(left) == 3


@MAY_FORK
@pytest.mark.parametrize("n", [5, 25, 40])
def test_process_that_is_really_killed_leaves_just_that(n, tmp_path, two_checkpoints):
    """The tests above kill nobody: here a child is gone, at a few of these instants."""
    folders = [shutil.copytree(two_checkpoints, tmp_path / name / "run") for name in ("killed", "copied")]

    def die() -> None:
        with pytest.MonkeyPatch.context() as patch:
            Watch(patch, NthCall(n, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            save_checkpoint(STATES[3], folders[0], keep_checkpoints=1)

    assert exit_code_of(die) == -signal.SIGKILL
    left = left_by_killed_saves(folders[1], tmp_path, keep_checkpoints=1)[n - 1]
    found = [tree(folder) for folder in (folders[0], left)]
    assert found[0].keys() == found[1].keys()
    same = [name for name in found[0] if found[0][name] == found[1][name]]
    assert {"step-00000002/state.json", "step-00000002/model.safetensors"} <= set(same)
    assert recovered(folders[0]) == recovered(left)


def test_failure_at_every_call_keeps_a_checkpoint_and_is_said_in_one_line(tmp_path, two_checkpoints):
    for n in range(1, MORE_CALLS):
        folder = shutil.copytree(two_checkpoints, tmp_path / str(n))
        problem = None
        with pytest.MonkeyPatch.context() as patch:
            failure = NthCall(n, no_space)
            Watch(patch, failure)
            try:
                save_checkpoint(STATES[3], folder, keep_checkpoints=2)
            except SightlineError as error:
                problem = error
        if problem is not None:
            path = folder / "step-00000003"
            sentence = (
                f"could not save the checkpoint {path}: {FULL}; earlier checkpoints are kept: fix this and resume"
            )
            assert (str(problem), problem.exit_code) == (sentence, 1)
        assert recovered(folder) in ((2, 3) if problem else (3,))
        if not failure.was_reached:
            break
        save_checkpoint(STATES[3], folder, keep_checkpoints=2)
        assert recovered(folder) == 3
    assert n > 30


@MAY_FORK
@pytest.mark.parametrize("most", [0, 100, 3000])
def test_full_disk_keeps_the_checkpoint_before(tmp_path, two_checkpoints, most):
    """Files may not grow beyond a few bytes: the system itself refuses, in the middle of a write."""
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    say, tell = os.pipe()

    def save_in_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            save_checkpoint(STATES[3], folder, keep_checkpoints=2)
        except SightlineError as error:
            os.write(tell, str(error).encode())
            os._exit(error.exit_code)

    assert exit_code_of(save_in_little_room) == 1
    os.close(tell)
    with os.fdopen(say, encoding="utf-8") as said:
        line = said.read()
    assert line.startswith(f"could not save the checkpoint {folder / 'step-00000003'}: ")
    assert "File too large" in line
    assert "\n" not in line
    assert recovered(folder) == 2
