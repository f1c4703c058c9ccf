"""What a run computes with: a resumed run is the same to the last bit only where this is the same."""

from collections.abc import Mapping

import torch
from torch import nn

from sightline import __version__


def environment(model: nn.Module) -> dict[str, object]:
    """Return versions, threads, device and number type."""
    weight = next(model.parameters())
    return {
        "sightline": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": weight.device.type,
        "dtype": str(weight.dtype).removeprefix("torch."),
    }


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Say in a sentence what is not as it was, if anything matters that is not; our own version does not."""
    changed = [
        f"{name} was {' '.join(str(then.get(name)).split())[:40]} and is {now[name]}"
        for name in now
        if name != "sightline" and then.get(name) != now[name]
    ]
    if not changed:
        return None
    return f"{', '.join(changed)}: the run goes on, but not to the last bit as it would have without the change"
