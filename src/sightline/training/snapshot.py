"""Snapshots of a model during training: its weights at steps 1, 2, 4, 8, …, kept to show how attention forms.

A run cannot be resumed from them; each is a model folder like any other.
"""

from pathlib import Path

from sightline.bundle import Bundle, save
from sightline.model.registry import Model
from sightline.training.retention import checkpoint_path


def snapshot_due(step: int) -> bool:
    """Tell whether the step is one of 1, 2, 4, 8, …: much happens early, little late."""
    return step > 0 and step & (step - 1) == 0


def save_snapshot(model: Model, folder: Path, *, step: int) -> Path:
    """Save the model of this step."""
    path = checkpoint_path(folder, step)
    save(Bundle(model), path)
    return path
