"""Snapshots are models like others, many early and few late."""

from sightline.bundle import load
from sightline.training.checkpoint import save_snapshot, snapshot_due

from .toy import digest, tiny_model


def test_snapshots_are_due_at_powers_of_two():
    assert [step for step in range(70) if snapshot_due(step)] == [1, 2, 4, 8, 16, 32, 64]


def test_snapshot_is_a_model_folder(tmp_path):
    model = tiny_model("transformer")
    path = save_snapshot(model, tmp_path, step=8)
    assert path == tmp_path / "step-00000008"
    assert digest(load(path).model.parameters()) == digest(model.parameters())
