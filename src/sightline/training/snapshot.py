"""Snapshots of a model while it learns: its weights at steps 1, 2, 4, 8, …, kept to show later how attention formed.

They cannot be resumed from; each is a model folder, and whatever opens a model opens it.
"""

from pathlib import Path

from sightline.bundle import Bundle, save
from sightline.model.registry import Model
from sightline.training.rotation import place_for


def snapshot_due(step: int) -> bool:
    """Tell whether the step is one of 1, 2, 4, 8, …: much happens early, little late."""
    return step > 0 and step & (step - 1) == 0


def save_snapshot(model: Model, folder: Path, *, step: int) -> Path:
    """Save the model of this step."""
    path = place_for(folder, step)
    save(Bundle(model), path)
    return path
