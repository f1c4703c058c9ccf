"""Capture the activations of a forward pass as NumPy arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sightline.model import Hooks, ablate_heads
from sightline.model.hooks import Action
from sightline.tracing.passes import Pass
from sightline.tracing.plan import Plan, has_heads

Actions = dict[str, tuple[Action, ...]]


@dataclass(frozen=True)
class CapturedActivations:
    """What one forward pass gave."""

    hidden: Float[Tensor, "1 T E"]
    """Output of the last layer."""
    arrays: dict[str, Float[np.ndarray, "..."]]
    """The planned activations, in the order the model computed them."""
    layers: list[Float[Tensor, "T E"]]
    """Output of every layer of the output tower; empty unless the logit lens was asked for."""
    mean_attention: Float[np.ndarray, "T S"] | None
    """The attention named by `mean_of`, averaged over its heads."""


def capture(
    forward_pass: Pass, plan: Plan, *, interventions: Actions, layers: bool, mean_of: str | None = None
) -> CapturedActivations:
    """Run a forward pass once and keep what the plan lists; with `layers` also every layer's output."""
    arrays: dict[str, Any] = {}
    outputs: list[Tensor] = []
    means: list[Any] = []
    n_heads = forward_pass.model.config.n_heads

    def keep(name: str, value: Tensor) -> None:
        arrays[name] = to_array(value, plan, name, n_heads)

    def keep_layer(_: str, value: Tensor) -> None:
        outputs.append(value[0].clone())

    def keep_mean(_: str, value: Tensor) -> None:
        means.append(value[0].mean(dim=0).float().cpu().numpy())

    wanted: list[Mapping[str, Sequence[Action]]] = [interventions, dict.fromkeys(plan.shapes, (keep,))]
    if layers:
        wanted.append(dict.fromkeys(forward_pass.layer_outputs, (keep_layer,)))
    if mean_of is not None:
        wanted.append({mean_of: (keep_mean,)})
    hooks = make_hooks(*wanted)
    hidden = forward_pass.run(hooks)
    if "logits" in plan.shapes:
        forward_pass.logits(hidden, hooks=hooks)
    return CapturedActivations(hidden, arrays, outputs, means[0] if means else None)


def to_array(value: Tensor, plan: Plan, name: str, n_heads: int) -> Float[np.ndarray, "..."]:
    """Return the value of a hook point as an array without the batch axis."""
    shape = plan.points[name]
    value = value.reshape(shape)
    if plan.heads is not None and has_heads(name, shape, n_heads):
        value = value[list(plan.heads)]
    array: Any = value.float().cpu().numpy()
    return np.array(array, dtype=np.float32)  # a copy: the model may reuse the tensor's memory


def make_hooks(*several: Mapping[str, Sequence[Action]]) -> Hooks:
    """Return hooks with actions by exact name, those of the first mapping first; no patterns are matched."""
    hooks = Hooks({})
    for actions in several:
        for name, own in actions.items():
            hooks.matches[name] = (*hooks.matches.get(name, ()), *own)
    return hooks


def ablation_actions(heads: Mapping[str, Sequence[int]]) -> Actions:
    """Return the actions that ablate these heads, given by attention."""
    return {f"{name}.head_outputs": (ablate_heads(*numbers),) for name, numbers in heads.items() if numbers}
