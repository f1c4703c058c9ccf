"""Catch the values of a pass on their way, as plain arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sightline.model import Probe, knock_out
from sightline.model.probe import Action
from sightline.tracing.passes import Pass
from sightline.tracing.plan import Plan, is_headed

Actions = dict[str, tuple[Action, ...]]


@dataclass(frozen=True)
class Captured:
    """What a pass has shown."""

    hidden: Float[Tensor, "1 T E"]
    """The last output."""
    arrays: dict[str, Float[np.ndarray, "..."]]
    """The probes that were planned, in the order in which the model computed them."""
    layers: list[Float[Tensor, "T E"]]
    """What every layer of the deciding tower handed on, if it is to be read out."""
    mean_attention: Float[np.ndarray, "T S"] | None
    """One attention, averaged over its heads, if it was asked for."""


def capture(work: Pass, plan: Plan, *, interventions: Actions, layers: bool, mean_of: str | None = None) -> Captured:
    """Run a pass once and keep what was planned; with `layers` also every layer's output, and the mean of a point."""
    arrays: dict[str, Any] = {}
    outputs: list[Tensor] = []
    means: list[Any] = []
    n_heads = work.model.config.n_heads

    def keep(name: str, value: Tensor) -> None:
        arrays[name] = array_of(value, plan, name, n_heads)

    def keep_layer(_: str, value: Tensor) -> None:
        outputs.append(value[0].clone())

    def keep_mean(_: str, value: Tensor) -> None:
        means.append(value[0].mean(dim=0).float().cpu().numpy())

    wanted: list[Mapping[str, Sequence[Action]]] = [interventions, dict.fromkeys(plan.shapes, (keep,))]
    if layers:
        wanted.append(dict.fromkeys(work.layer_outputs, (keep_layer,)))
    if mean_of is not None:
        wanted.append({mean_of: (keep_mean,)})
    probe = watching(*wanted)
    hidden = work.run(probe)
    if "logits" in plan.shapes:
        work.logits(hidden, probe=probe)
    return Captured(hidden, arrays, outputs, means[0] if means else None)


def array_of(value: Tensor, plan: Plan, name: str, n_heads: int) -> Float[np.ndarray, "..."]:
    """Return the value of a point, of the one text there is, as an array of its own."""
    shape = plan.points[name]
    value = value.reshape(shape)
    if plan.heads is not None and is_headed(name, shape, n_heads):
        value = value[list(plan.heads)]
    array: Any = value.float().cpu().numpy()
    return np.array(array, dtype=np.float32)  # a copy: the model may go on to use its memory for something else


def watching(*several: Mapping[str, Sequence[Action]]) -> Probe:
    """Return a probe whose actions are known by name, those of the first mapping first; no pattern is compared."""
    probe = Probe({})
    for actions in several:
        for name, own in actions.items():
            probe.found[name] = (*probe.found.get(name, ()), *own)
    return probe


def knocked_out(heads: Mapping[str, Sequence[int]]) -> Actions:
    """Return what silences heads, by the attention they are in."""
    return {f"{name}.mixed": (knock_out(*numbers),) for name, numbers in heads.items() if numbers}
