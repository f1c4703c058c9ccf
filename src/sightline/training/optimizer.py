"""What turns gradients into new weights: torch's optimisers, each with the parameters that suit it.

    adam    all parameters (5.3 of the paper)
    adamw   matrices shrink a little with every update; norms, biases and embeddings do not
    muon    Muon for the matrices within layers, AdamW for everything else

One model may so need two of torch's optimisers; here they are one. An update that would spoil the weights is not done.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sightline.errors import SightlineError
from sightline.training.muon import Muon
from sightline.training.settings import OnNonFinite, TrainingSettings

FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Where torch has one kernel for a whole Adam update."""

WITHIN_LAYERS = ".layers."
"""Part of the name of every parameter that belongs to a layer of a stack."""

NamedParameters = list[tuple[str, nn.Parameter]]


@dataclass(frozen=True)
class Update:
    """What became of one update."""

    gradient_norm: float
    problem: str | None = None
    """Why it was not done; weights and optimiser are then as they were."""


class Optimizer:
    """One or several of torch's optimisers that share the parameters of a model."""

    def __init__(self, parts: Iterable[torch.optim.Optimizer]) -> None:
        self.parts = tuple(parts)

    @property
    def kinds(self) -> list[str]:
        """The classes of the parts."""
        return [type(part).__name__ for part in self.parts]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield every parameter that is trained, tied ones once."""
        for part in self.parts:
            for group in part.param_groups:
                yield from zip(group["param_names"], group["params"], strict=True)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def update(
        self, step: int, *, learning_rate: float, clip_norm: float = 0.0, on_non_finite: OnNonFinite = "skip"
    ) -> Update:
        """Do update number `step`, the gradient shortened to `clip_norm` unless that is 0.

        NaN or infinity in a gradient leaves everything as it is: the update is skipped, or the run stopped.
        """
        named = [(name, parameter) for name, parameter in self.named_parameters() if parameter.grad is not None]
        gradients = [parameter.grad for _, parameter in named if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)  # one number shows whether any is not finite
        if not bool(norm.isfinite()):
            return refused_update(float(norm), f"step {step:,}: {blame(named)}", on_non_finite)
        if clip_norm:
            torch.nn.utils.clip_grads_with_norm_([parameter for _, parameter in named], clip_norm, norm)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.step()
        return Update(float(norm))


def refused_update(norm: float, problem: str, on_non_finite: OnNonFinite) -> Update:
    """Report an update that was not done, or end the run."""
    if on_non_finite == "stop":
        raise SightlineError(
            f"{problem}; the run is stopped as on_non_finite asks, and its last checkpoint is good: "
            "resume with a lower learning rate or with clip_norm"
        )
    return Update(norm, f"{problem}; this update is skipped")


def blame(named: NamedParameters) -> str:
    """Name the parameters whose gradients are not finite, or too large for their norm to be."""
    bad = {name: parameter.grad for name, parameter in named if not all_finite(parameter.grad)}
    if not bad:
        return "the gradient's norm is too large for a number, though every part of it is finite"
    name, gradient = next(iter(bad.items()))
    what = "NaN" if gradient is not None and bool(gradient.isnan().any()) else "infinity"
    others = f" and those of {len(bad) - 1:,} more parameters are not finite either" if len(bad) > 1 else ""
    return f"the gradient of {name} holds {what}{others}"


def all_finite(gradient: Tensor | None) -> bool:
    """Tell whether neither NaN nor infinity is among the values."""
    return gradient is None or bool(gradient.isfinite().all())


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Return the optimiser that the settings ask for, with every trainable parameter of the model."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        raise SightlineError("this model has no parameters to train: all of them are frozen")
    rate = settings.learning_rate or 0.0  # every update is told its own
    adam: dict[str, Any] = {"betas": settings.betas, "eps": settings.epsilon, "fused": can_be_fused(named)}
    if settings.optimizer == "adam":
        return Optimizer([torch.optim.Adam(named, lr=rate, **adam)])
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    groups: dict[str, NamedParameters] = {"hidden": [], "matrices": [], "others": []}
    for name, parameter in named:
        groups[group_of(name, parameter, settings, is_embedding=id(parameter) in embeddings)].append((name, parameter))
    decays = {"matrices": settings.weight_decay, "others": 0.0}
    adam_groups = [{"params": groups[kind], "weight_decay": decay} for kind, decay in decays.items() if groups[kind]]
    parts: list[torch.optim.Optimizer] = []
    if groups["hidden"]:
        parts.append(Muon(groups["hidden"], lr=rate, weight_decay=settings.weight_decay, momentum=settings.momentum))
    if adam_groups:
        parts.append(torch.optim.AdamW(adam_groups, lr=rate, **adam))
    return Optimizer(parts)


def group_of(name: str, parameter: nn.Parameter, settings: TrainingSettings, *, is_embedding: bool) -> str:
    """Tell how a parameter is trained: by Muon, or by AdamW with or without decay.

    An output projection that is tied to an embedding is that embedding.
    """
    if parameter.ndim < 2 or is_embedding:
        return "others"
    return "hidden" if settings.optimizer == "muon" and WITHIN_LAYERS in name else "matrices"


def can_be_fused(named: NamedParameters) -> bool:
    """Tell whether torch can update all these parameters in one kernel."""
    return all(p.device.type in FUSED_DEVICES and p.is_floating_point() for _, p in named)
