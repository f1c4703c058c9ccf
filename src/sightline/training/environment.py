"""The environment of a run: a resumed run is bit-identical only in the same environment."""

from collections.abc import Mapping

import torch
from torch import nn

from sightline import __version__


def environment(model: nn.Module) -> dict[str, object]:
    """Return versions, threads, device and dtype."""
    weight = next(model.parameters())
    return {
        "sightline": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": weight.device.type,
        "dtype": str(weight.dtype).removeprefix("torch."),
    }


def describe_changes(then: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Return what has changed in a sentence, or None; our own version does not count."""
    changed = [
        f"{name} was {' '.join(str(then.get(name)).split())[:40]} and is {now[name]}"
        for name in now
        if name != "sightline" and then.get(name) != now[name]
    ]
    if not changed:
        return None
    return f"{', '.join(changed)}: the run continues, but not bit-identical to an uninterrupted one"
