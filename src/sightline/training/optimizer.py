"""Optimizers: torch's, each with the parameters that suit it.

    adam    all parameters (5.3 of the paper)
    adamw   weight decay for matrices; none for norms, biases and embeddings
    muon    Muon for the matrices within layers, AdamW for everything else

A model may need two of torch's optimizers; `Optimizer` makes them one. An update with non-finite gradients is skipped.
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
"""Devices for which torch has a fused Adam kernel."""

WITHIN_LAYERS = ".layers."
"""Part of the name of every parameter that belongs to a layer of a stack."""

NamedParameters = list[tuple[str, nn.Parameter]]


@dataclass(frozen=True)
class UpdateResult:
    """The outcome of one update."""

    gradient_norm: float
    problem: str | None = None
    """Why it was skipped; weights and optimizer are then unchanged."""


class Optimizer:
    """One or several of torch's optimizers that share the parameters of a model."""

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
        """Clear the gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def update(
        self, step: int, *, learning_rate: float, grad_clip: float = 0.0, on_non_finite: OnNonFinite = "skip"
    ) -> UpdateResult:
        """Do update number `step`, with the gradient norm clipped to `grad_clip` unless that is 0.

        NaN or infinity in a gradient changes nothing: the update is skipped, or the run stopped.
        """
        named = [(name, parameter) for name, parameter in self.named_parameters() if parameter.grad is not None]
        gradients = [parameter.grad for _, parameter in named if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)  # not finite if any gradient is not
        if not bool(norm.isfinite()):
            return skip_update(float(norm), f"step {step:,}: {describe_non_finite(named)}", on_non_finite)
        if grad_clip:
            torch.nn.utils.clip_grads_with_norm_([parameter for _, parameter in named], grad_clip, norm)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.step()
        return UpdateResult(float(norm))


def skip_update(norm: float, problem: str, on_non_finite: OnNonFinite) -> UpdateResult:
    """Report a skipped update, or stop the run."""
    if on_non_finite == "stop":
        raise SightlineError(
            f"{problem}; the run is stopped because on_non_finite is stop, and its last checkpoint is good: "
            "resume with a lower learning rate or with grad_clip"
        )
    return UpdateResult(norm, f"{problem}; update skipped")


def describe_non_finite(named: NamedParameters) -> str:
    """Name the parameters whose gradients, or their norm, are not finite."""
    bad = {name: parameter.grad for name, parameter in named if not all_finite(parameter.grad)}
    if not bad:
        return "the gradient norm overflows, though all gradients are finite"
    name, gradient = next(iter(bad.items()))
    what = "NaN" if gradient is not None and bool(gradient.isnan().any()) else "infinity"
    others = f", and those of {len(bad) - 1:,} more parameters are not finite" if len(bad) > 1 else ""
    return f"the gradient of {name} holds {what}{others}"


def all_finite(gradient: Tensor | None) -> bool:
    """Tell whether no value is NaN or infinity."""
    return gradient is None or bool(gradient.isfinite().all())


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Return the optimizer of the settings, with every trainable parameter of the model."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        raise SightlineError("the model has no trainable parameters: all are frozen")
    rate = settings.learning_rate or 0.0  # every update sets its own
    adam: dict[str, Any] = {"betas": settings.betas, "eps": settings.adam_eps, "fused": can_be_fused(named)}
    if settings.optimizer == "adam":
        return Optimizer([torch.optim.Adam(named, lr=rate, **adam)])
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    groups: dict[str, NamedParameters] = {"hidden": [], "matrices": [], "others": []}
    for name, parameter in named:
        groups[choose_group(name, parameter, settings, is_embedding=id(parameter) in embeddings)].append(
            (name, parameter)
        )
    decays = {"matrices": settings.weight_decay, "others": 0.0}
    adam_groups = [{"params": groups[kind], "weight_decay": decay} for kind, decay in decays.items() if groups[kind]]
    parts: list[torch.optim.Optimizer] = []
    if groups["hidden"]:
        parts.append(Muon(groups["hidden"], lr=rate, weight_decay=settings.weight_decay, momentum=settings.momentum))
    if adam_groups:
        parts.append(torch.optim.AdamW(adam_groups, lr=rate, **adam))
    return Optimizer(parts)


def choose_group(name: str, parameter: nn.Parameter, settings: TrainingSettings, *, is_embedding: bool) -> str:
    """Return the group of a parameter: Muon, or AdamW with or without weight decay.

    An output projection tied to an embedding counts as the embedding.
    """
    if parameter.ndim < 2 or is_embedding:
        return "others"
    return "hidden" if settings.optimizer == "muon" and WITHIN_LAYERS in name else "matrices"


def can_be_fused(named: NamedParameters) -> bool:
    """Tell whether torch can update all these parameters in one kernel."""
    return all(p.device.type in FUSED_DEVICES and p.is_floating_point() for _, p in named)
