"""The last few checkpoints stay, the best one stays, nothing else does."""

from dataclasses import replace
from pathlib import Path

import pytest

from sightline.errors import SightlineError
from sightline.training.checkpoint import list_checkpoints, load, remove_leftovers, resume, save

from .toy import new_state


def at_step(state, step: int, *, best_step: int | None = None):
    state.progress = replace(state.progress, step=step, best_step=best_step)
    return state


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    state = new_state()
    assert list_checkpoints(tmp_path / "none") == []
    for step in (9, 10, 123_456_789):
        save(at_step(state, step), tmp_path, keep_checkpoints=5)
    (tmp_path / "step-999999999").write_text("a file is no checkpoint")
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000009", "step-00000010", "step-123456789"]


def test_rotation_keeps_exactly_the_last_few_and_the_best(tmp_path):
    state = new_state()
    for step in range(1, 9):
        save(at_step(state, step, best_step=2 if step >= 2 else None), tmp_path, keep_checkpoints=3)
    assert names(tmp_path) == ["step-00000002", "step-00000006", "step-00000007", "step-00000008"]


def test_rotation_counts_a_best_among_the_last_once(tmp_path):
    state = new_state()
    for step in range(1, 6):
        save(at_step(state, step, best_step=step), tmp_path, keep_checkpoints=2)
    assert names(tmp_path) == ["step-00000004", "step-00000005"]


def test_rotation_that_cannot_remove_does_not_end_the_run(tmp_path, monkeypatch):
    state = new_state()
    save(at_step(state, 1), tmp_path, keep_checkpoints=1)
    rename = Path.rename

    def refused(self, target):
        if str(target).endswith(".tmp-gone"):
            raise PermissionError
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    save(at_step(state, 2), tmp_path, keep_checkpoints=1)
    assert list_checkpoints(tmp_path)[-1] == tmp_path / "step-00000002"


def test_leftovers_are_removed_at_the_next_start(tmp_path):
    state = new_state()
    save(at_step(state, 1), tmp_path, keep_checkpoints=3)
    for name in ("step-00000002.tmp-new", "step-00000001.tmp-old", "step-00000000.tmp-gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    resume(state, tmp_path)
    assert names(tmp_path) == ["notes.txt", "step-00000001"]


def test_checkpoint_that_was_only_moved_aside_is_put_back(tmp_path):
    state = new_state()
    path = save(state, tmp_path, keep_checkpoints=1)
    path.rename(path.with_name(f"{path.name}.tmp-old"))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [path.name]
    assert load(new_state(), path).notes == ()


def test_checkpoint_that_cannot_be_put_back_is_said_plainly(tmp_path, monkeypatch):
    """Starting anew without a word would be worse."""
    path = save(new_state(), tmp_path, keep_checkpoints=1)
    path.rename(path.with_name(f"{path.name}.tmp-old"))

    def refused(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(SightlineError, match=r"could not rename .*tmp-old back to step-00000000: Permission denied"):
        resume(new_state(), tmp_path)
