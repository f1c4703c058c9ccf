"""Checkpoints bring everything back and say what has changed; the last few and the best stay, and so do snapshots."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline import bundle
from sightline.errors import ModelFileError, RefusedError, SettingsError, SightlineError
from sightline.training.checkpoint import (
    build_rank_entries,
    list_checkpoints,
    load_checkpoint,
    remove_leftovers,
    resume,
    save_checkpoint,
    save_snapshot,
    snapshot_due,
)
from sightline.training.distributed import Rank
from sightline.training.optimizer import average_files
from sightline.training.state import LoopState, Progress, RunningSums

from .toy import SETTINGS, digest, fingerprint, new_state, tiny_model, train


def trained(n_batches: int = 4, settings=SETTINGS, **kwargs):
    state = new_state(settings=settings, **kwargs)
    train(state, settings, n_batches=n_batches)
    return state


def at_step(state, step: int, *, best_step: int | None = None):
    state.progress = replace(state.progress, step=step, best_step=best_step)
    return state


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_checkpoint_brings_everything_back(tmp_path):
    state = trained(5)  # in the middle of an accumulation
    state.progress = replace(state.progress, skipped=3, seconds=0.1, best_step=1)
    state.loop = LoopState(tokens=7, validated_step=1, best_selection_key=(-1 / 3, 0.1))
    state.sums = RunningSums(pending_tokens=3, window_loss=2 / 3, window_tokens=4)
    state.metrics |= {"loss": 1 / 3, "sample": "ein Hund läuft", "none": None}
    path = save_checkpoint(state, tmp_path, keep_checkpoints=3)
    other = new_state(seed=9)
    assert load_checkpoint(other, path).notes == ()
    assert fingerprint(other) == fingerprint(state)
    assert set(fingerprint(other)) == {
        *("model", "optimizer", "ema", "gradients"),
        *("progress", "loop", "sums", "metrics"),
    }


def test_checkpoint_brings_the_random_generators_back(tmp_path):
    state = trained()
    path = save_checkpoint(state, tmp_path, keep_checkpoints=1)
    expected = np.random.standard_normal(3).tolist(), torch.randn(3).tolist()  # noqa: NPY002
    load_checkpoint(state, path)
    assert (np.random.standard_normal(3).tolist(), torch.randn(3).tolist()) == expected  # noqa: NPY002


def test_checkpoint_forgets_gradients_and_memories_that_it_does_not_have(tmp_path):
    path = save_checkpoint(new_state(), tmp_path, keep_checkpoints=1)
    state = trained(4)
    load_checkpoint(state, path)
    assert set(state.tensors()) == {"model", "ema"}


def test_checkpoint_without_an_average_is_complete(tmp_path):
    settings = replace(SETTINGS, ema_decay=0.0)
    state = trained(settings=settings)
    path = save_checkpoint(state, tmp_path, keep_checkpoints=1)
    other = new_state(settings=settings)
    load_checkpoint(other, path)
    assert fingerprint(other) == fingerprint(state)
    assert names(path) == [
        "SHA256SUMS",
        "gradients.safetensors",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_checkpoint_of_half_precision_is_exact(tmp_path, kind):
    state = new_state()
    state.model.to(kind)
    path = save_checkpoint(state, tmp_path, keep_checkpoints=1)
    other = new_state(seed=9)
    other.model.to(kind)
    load_checkpoint(other, path)
    assert fingerprint(other)["model"] == fingerprint(state)["model"]


def test_checkpoint_keeps_a_score_that_is_not_a_number_as_nothing(tmp_path):
    state = new_state()
    state.metrics = {"loss": float("inf"), "score": float("nan"), "steps": 3}
    load_checkpoint(state, save_checkpoint(state, tmp_path, keep_checkpoints=1))
    assert state.metrics == {"loss": None, "score": None, "steps": 3}


def test_checkpoint_can_be_checked_with_sha256sum(tmp_path):
    path = save_checkpoint(trained(), tmp_path, keep_checkpoints=1)
    for line in (path / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split("  ")
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == expected
    assert len((path / "SHA256SUMS").read_text().splitlines()) == len(names(path)) - 1


def test_weights_of_checkpoints_can_be_averaged(tmp_path):
    state = new_state()
    for _ in range(3):
        train(state, SETTINGS, n_batches=SETTINGS.gradient_accumulation)
        save_checkpoint(state, tmp_path, keep_checkpoints=3)
    means = average_files([path / "model.safetensors" for path in list_checkpoints(tmp_path)])
    assert {name: tuple(mean.shape) for name, mean in means.items()} == state.shapes()


def test_same_step_is_replaced(tmp_path):
    """A signal may come in the middle of the accumulation after a checkpoint."""
    state = trained(3)
    save_checkpoint(state, tmp_path, keep_checkpoints=2)
    train(state, SETTINGS, n_batches=1)
    save_checkpoint(state, tmp_path, keep_checkpoints=2)
    other = new_state(seed=9)
    resume(other, tmp_path)
    assert other.progress.accumulated == 1
    assert names(tmp_path) == ["step-00000001"]


def test_resume_of_an_empty_folder_is_nothing(tmp_path):
    assert resume(new_state(), tmp_path) is None
    assert resume(new_state(), tmp_path / "none") is None


def test_damaged_newest_checkpoint_falls_back_with_one_sentence(tmp_path):
    state = trained(3)
    save_checkpoint(state, tmp_path, keep_checkpoints=3)
    expected = fingerprint(state)
    train(state, SETTINGS, n_batches=3)
    newest = save_checkpoint(state, tmp_path, keep_checkpoints=3)
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"oops")
    other = new_state(seed=9)
    resumed = resume(other, tmp_path)
    assert resumed.path == tmp_path / "step-00000001"
    (note,) = resumed.notes
    assert note == f"{weights}: is damaged: its digest differs from SHA256SUMS; falling back to step-00000001"
    assert fingerprint(other) == expected


def test_run_whose_checkpoints_are_all_damaged_is_refused_with_the_newest(tmp_path):
    state = trained(3)
    for _ in range(2):
        train(state, SETTINGS, n_batches=3)
        (save_checkpoint(state, tmp_path, keep_checkpoints=3) / "state.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"step-00000003.state\.json"):
        resume(state, tmp_path)


@pytest.mark.parametrize("file", ["SHA256SUMS", "state.json", "model.safetensors", "optimizer.safetensors"])
def test_any_flipped_bit_is_noticed(tmp_path, file):
    path = save_checkpoint(trained(), tmp_path, keep_checkpoints=1)
    data = (path / file).read_bytes()
    state = new_state()
    before = fingerprint(state)
    for place in random.Random(1).sample(range(len(data)), 25):  # noqa: S311
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        (path / file).write_bytes(flipped)
        with pytest.raises(ModelFileError) as caught:
            load_checkpoint(state, path)
        assert "\n" not in str(caught.value)
    assert fingerprint(state) == before


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("torch", "1.0", f"torch was 1.0 and is {torch.__version__}"),
        ("threads", 64, f"threads was 64 and is {torch.get_num_threads()}"),
        ("device", "cuda", "device was cuda and is cpu"),
        ("dtype", "bfloat16", "dtype was bfloat16 and is float32"),
    ],
)
def test_changed_environment_is_noted(tmp_path, monkeypatch, name, value, sentence):
    state = trained()
    real = {"torch": torch.__version__, "threads": torch.get_num_threads(), "device": "cpu", "dtype": "float32"}
    with monkeypatch.context() as patch:
        patch.setattr("sightline.training.checkpoint.collect_environment", lambda model: {**real, name: value})
        save_checkpoint(state, tmp_path, keep_checkpoints=1)
    resumed = resume(state, tmp_path)
    assert resumed.notes == (f"{sentence}: the run continues, but not bit-identical to an uninterrupted one",)


def test_other_optimizer_is_refused(tmp_path):
    path = save_checkpoint(trained(), tmp_path, keep_checkpoints=1)
    state = new_state(settings=replace(SETTINGS, optimizer="muon"))
    with pytest.raises(
        RefusedError, match="was saved with AdamW, but the settings ask for Muon and AdamW: resume with"
    ):
        load_checkpoint(state, path)


@pytest.mark.parametrize(("then", "now", "sentence"), [(0.9, 0.0, "has EMA weights"), (0.0, 0.9, "has no EMA weights")])
def test_ema_that_differs_from_the_settings_is_refused(tmp_path, then, now, sentence):
    path = save_checkpoint(trained(settings=replace(SETTINGS, ema_decay=then)), tmp_path, keep_checkpoints=1)
    with pytest.raises(RefusedError, match=f"{sentence}.*resume with the run's original ema_decay"):
        load_checkpoint(new_state(settings=replace(SETTINGS, ema_decay=now)), path)


def test_checkpoint_of_another_model_is_refused(tmp_path):
    path = save_checkpoint(trained(family="bert"), tmp_path, keep_checkpoints=1)
    with pytest.raises(ModelFileError, match="does not fit the model in training: missing: decoder"):
        load_checkpoint(new_state("gpt"), path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_spoiled_weights_are_not_saved_over_good_ones(tmp_path, value):
    state = trained(3)
    save_checkpoint(state, tmp_path, keep_checkpoints=1)
    state.model.output.weight.data[0, 0] = value
    with pytest.raises(SightlineError, match=r"not saved: embedding.tokens.weight \(model\) holds NaN or infinity"):
        save_checkpoint(at_step(state, 2), tmp_path, keep_checkpoints=1)
    assert resume(new_state(), tmp_path).path == tmp_path / "step-00000001"


def test_spoiled_gradients_are_saved_and_judged_by_their_update(tmp_path):
    """A signal in the middle of an accumulation must not lose the run because a batch gave NaN."""
    state = trained(4)
    state.model.output.weight.grad[0, 0] = float("nan")
    path = save_checkpoint(state, tmp_path, keep_checkpoints=1)
    other = new_state()
    load_checkpoint(other, path)
    assert fingerprint(other) == fingerprint(state)
    assert "embedding.tokens.weight holds NaN" in other.optimizer.update(2, learning_rate=0.1).problem


def test_weights_of_a_type_that_would_be_rounded_are_not_saved(tmp_path):
    state = new_state()
    state.model.double()
    with pytest.raises(SightlineError, match=r"is torch\.float64, not a 32-bit or 16-bit float"):
        save_checkpoint(state, tmp_path, keep_checkpoints=1)


def test_metrics_that_are_too_large_are_not_saved(tmp_path):
    state = new_state()
    state.metrics = {f"loss at step {step}": 0.123456789 for step in range(120_000)}
    with pytest.raises(SightlineError, match=r"their history belongs in metrics\.jsonl"):
        save_checkpoint(state, tmp_path, keep_checkpoints=1)


class OneOfSeveral(Rank):
    """A rank that knows what the others would hand in."""

    def __init__(self, index: int, world_size: int, others: list[bytes] | None = None) -> None:
        self.index, self.world_size, self.others = index, world_size, others or []

    def gather(self, data: bytes) -> list[bytes]:
        return [data, *self.others]


@pytest.fixture
def of_two_ranks(tmp_path) -> Path:
    """The checkpoint of two ranks that have drawn and summed different numbers, in the middle of an accumulation."""
    state = trained(4)
    main = state.sums
    torch.manual_seed(21)
    state.sums = RunningSums(pending_tokens=5, window_loss=0.5, window_tokens=6)
    second = json.dumps(build_rank_entries(state)).encode()
    torch.manual_seed(20)
    state.sums = main
    return save_checkpoint(state, tmp_path, keep_checkpoints=1, rank=OneOfSeveral(0, 2, [second]))


def drawn_after(seed: int) -> list[float]:
    return torch.randn(3, generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("index", [0, 1])
def test_each_rank_gets_its_own_sums_and_random_generators_back(of_two_ranks, index):
    state = new_state()
    assert load_checkpoint(state, of_two_ranks, rank=OneOfSeveral(index, 2)).notes == ()
    assert torch.randn(3).tolist() == drawn_after(20 + index)
    assert (state.sums.window_tokens == 6) == (index == 1)


def test_only_the_main_rank_writes_a_checkpoint(tmp_path):
    assert not save_checkpoint(trained(), tmp_path, keep_checkpoints=1, rank=OneOfSeveral(1, 2)).exists()


def test_fewer_ranks_resume_with_a_note(of_two_ranks):
    (note,) = load_checkpoint(new_state(), of_two_ranks).notes
    assert note == (
        "the checkpoint has the random generators of 2 ranks, not of 1: those from 1 on are unused; "
        "the run continues, but not bit-identical to an uninterrupted one"
    )
    assert torch.randn(3).tolist() == drawn_after(20)


def test_a_rank_that_was_not_there_starts_with_nothing_of_another(of_two_ranks):
    """Gradients and tokens that were loaded twice would count twice."""
    state = trained(4)
    torch.manual_seed(7)
    loaded = load_checkpoint(state, of_two_ranks, rank=OneOfSeveral(2, 3))
    assert loaded.n_ranks == 2
    assert "of 2 ranks, not of 3: ranks from 2 on are seeded anew; the run continues" in loaded.notes[0]
    assert state.sums == RunningSums()
    assert "gradients" not in state.tensors()
    assert torch.randn(3).tolist() == drawn_after(7)


def test_state_says_what_made_it(tmp_path):
    entries = json.loads((save_checkpoint(trained(), tmp_path, keep_checkpoints=1) / "state.json").read_text())
    assert entries["optimizer"] == ["AdamW"]
    assert entries["environment"]["torch"] == torch.__version__
    assert Progress(**entries["progress"]).step == 1


def test_progress_below_zero_is_refused():
    with pytest.raises(SettingsError, match="position must be 0 or more, not -1"):
        Progress(position=-1)


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    state = new_state()
    assert list_checkpoints(tmp_path / "none") == []
    for step in (9, 10, 123_456_789):
        save_checkpoint(at_step(state, step), tmp_path, keep_checkpoints=5)
    (tmp_path / "step-999999999").write_text("a file is no checkpoint")
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000009", "step-00000010", "step-123456789"]


def test_rotation_keeps_exactly_the_last_few_and_the_best(tmp_path):
    state = new_state()
    for step in range(1, 9):
        save_checkpoint(at_step(state, step, best_step=2 if step >= 2 else None), tmp_path, keep_checkpoints=3)
    assert names(tmp_path) == ["step-00000002", "step-00000006", "step-00000007", "step-00000008"]


def test_rotation_counts_a_best_among_the_last_once(tmp_path):
    state = new_state()
    for step in range(1, 6):
        save_checkpoint(at_step(state, step, best_step=step), tmp_path, keep_checkpoints=2)
    assert names(tmp_path) == ["step-00000004", "step-00000005"]


def test_rotation_that_cannot_remove_does_not_end_the_run(tmp_path, monkeypatch):
    state = new_state()
    save_checkpoint(at_step(state, 1), tmp_path, keep_checkpoints=1)
    rename = Path.rename

    def refused(self, target):
        if str(target).endswith(".tmp-gone"):
            raise PermissionError
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    save_checkpoint(at_step(state, 2), tmp_path, keep_checkpoints=1)
    assert list_checkpoints(tmp_path)[-1] == tmp_path / "step-00000002"


def test_leftovers_are_removed_at_the_next_start(tmp_path):
    state = new_state()
    save_checkpoint(at_step(state, 1), tmp_path, keep_checkpoints=3)
    for name in ("step-00000002.tmp-new", "step-00000001.tmp-old", "step-00000000.tmp-gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    resume(state, tmp_path)
    assert names(tmp_path) == ["notes.txt", "step-00000001"]


def test_checkpoint_that_was_only_moved_aside_is_put_back(tmp_path):
    state = new_state()
    path = save_checkpoint(state, tmp_path, keep_checkpoints=1)
    path.rename(path.with_name(f"{path.name}.tmp-old"))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [path.name]
    assert load_checkpoint(new_state(), path).notes == ()


def test_checkpoint_that_cannot_be_put_back_is_said_plainly(tmp_path, monkeypatch):
    """Starting anew without a word would be worse."""
    path = save_checkpoint(new_state(), tmp_path, keep_checkpoints=1)
    path.rename(path.with_name(f"{path.name}.tmp-old"))

    def refused(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(SightlineError, match=r"could not rename .*tmp-old back to step-00000000: Permission denied"):
        resume(new_state(), tmp_path)


def test_snapshots_are_due_at_powers_of_two():
    assert [step for step in range(70) if snapshot_due(step)] == [1, 2, 4, 8, 16, 32, 64]


def test_snapshot_is_a_model_folder(tmp_path):
    model = tiny_model("transformer")
    path = save_snapshot(model, tmp_path, step=8)
    assert path == tmp_path / "step-00000008"
    assert digest(bundle.load(path).model.parameters()) == digest(model.parameters())
