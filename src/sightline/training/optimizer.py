"""Optimizers: torch's and Muon, each with the parameters that suit it, and averages of the weights they move."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sightline.bundle.weights import TensorFile, check_tensors, open_tensor_file
from sightline.errors import InputError, SightlineError
from sightline.model.interfaces import Model
from sightline.model.products import by_way
from sightline.runtime import Way, current_products
from sightline.training.settings import OnNonFinite, TrainingSettings

NamedParameters = list[tuple[str, nn.Parameter]]


@dataclass(frozen=True)
class UpdateResult:
    """The outcome of one update."""

    gradient_norm: float
    problem: str | None = None
    """Why it was skipped; weights and optimizer are then unchanged."""


class Optimizer:
    """One or several of torch's optimizers that share the parameters of a model; `make_optimizer` builds it."""

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

    @property
    def hidden_matrices(self) -> list[Tensor]:
        """The matrices that Muon updates."""
        muons = [part for part in self.parts if isinstance(part, Muon)]
        return [matrix for muon in muons for group in muon.param_groups for matrix in group["params"]]

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


def make_optimizer(model: nn.Module | Model, settings: TrainingSettings) -> Optimizer:
    """Return the optimizer of the settings, with every trainable parameter of the model.

    adam    all parameters (5.3 of the paper)
    adamw   weight decay for matrices; none for norms, biases and embeddings
    muon    Muon for the matrices within layers, AdamW for everything else
    """
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


WITHIN_LAYERS = ".layers."
"""Part of the name of every parameter that belongs to a layer of a stack."""


def choose_group(name: str, parameter: nn.Parameter, settings: TrainingSettings, *, is_embedding: bool) -> str:
    """Return the group of a parameter: Muon, or AdamW with or without weight decay.

    An output projection tied to an embedding counts as the embedding.
    """
    if parameter.ndim < 2 or is_embedding:
        return "others"
    return "hidden" if settings.optimizer == "muon" and WITHIN_LAYERS in name else "matrices"


FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Devices for which torch has a fused Adam kernel."""


def can_be_fused(named: NamedParameters) -> bool:
    """Tell whether torch can update all these parameters in one kernel."""
    return all(p.device.type in FUSED_DEVICES and p.is_floating_point() for _, p in named)


class Muon(torch.optim.Muon):
    """Muon (Jordan et al. 2024), with Nesterov momentum and updates as large as AdamW's: one learning rate suits both.

    torch's own computes its matrix products in bfloat16, which is slow without hardware support (docs/log.md). Here
    they have the precision of the weights (`Products.optimizer`), and all matrices of one shape are orthogonalized in
    one batch. The state is that of torch's Muon.
    """

    def __init__(
        self, parameters: Iterable[Any], *, lr: float, weight_decay: float = 0.0, momentum: float = 0.95
    ) -> None:
        super().__init__(
            parameters, lr, weight_decay, momentum, nesterov=True, adjust_lr_fn="match_rms_adamw"
        )  # fmt: skip

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        if closure is not None:
            raise NotImplementedError("closures are not supported: compute gradients before step()")
        products = current_products()
        way: Way = "default" if products is None else products.optimizer
        for group in self.param_groups:
            same_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    same_shape[parameter.shape].append(parameter)
            for shape, parameters in same_shape.items():
                with by_way(way):
                    directions = orthogonalize(torch.stack([self._direction(one, group) for one in parameters]), group)
                rate = group["lr"] * 0.2 * max(shape) ** 0.5  # what torch calls "match_rms_adamw"
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(parameters, list(directions), alpha=-rate)

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the gradient with Nesterov momentum."""
        gradient, state = parameter.grad, self.state[parameter]
        if gradient is None:
            raise TypeError("a parameter without a gradient is not updated")
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        momentum: Tensor = state["momentum_buffer"]
        momentum.lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(momentum, group["momentum"])


def orthogonalize(matrices: Float[Tensor, "N R C"], group: dict[str, Any]) -> Float[Tensor, "N R C"]:
    """Return matrices with about the same directions whose singular values are all near 1 (Newton–Schulz)."""
    a, b, c = group["ns_coefficients"]
    transposed = matrices.size(1) > matrices.size(2)
    x = matrices.mT if transposed else matrices
    x = x / x.flatten(1).norm(dim=1).clamp(min=group["eps"])[:, None, None]
    for _ in range(group["ns_steps"]):
        products = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(products, products, products, beta=b, alpha=c), x, beta=a)
    return x.mT if transposed else x


class ExponentialMovingAverage:
    """An exponential moving average (EMA) of a model's weights, in 32-bit floats, tied weights once."""

    def __init__(self, model: nn.Module | Model, *, decay: float) -> None:
        self.decay = decay
        self.weights = {name: parameter.detach().float().clone() for name, parameter in model.named_parameters()}

    def update(self, model: nn.Module | Model, step: int) -> None:
        """Add the weights after update number `step`."""
        rate = 1 - effective_decay(step, max_decay=self.decay)
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter.detach().float(), rate)

    @contextmanager
    def swap_into(self, model: nn.Module | Model) -> Iterator[None]:
        """Swap the averaged weights into the model; its own come back unchanged at the end.

        Do not train meanwhile: the update would go into the average.
        """
        own = {name: parameter.data for name, parameter in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.weights[name].to(parameter.dtype)
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]


def effective_decay(step: int, *, max_decay: float) -> float:
    """Return the decay at a step: low at first, so that the random initial weights are forgotten."""
    return min(max_decay, (1 + step) / (10 + step))


def average_files(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several safetensors files of one model, such as its last checkpoints (6.1).

    Files are read tensor by tensor: memory holds the result and one tensor.
    """
    if not paths:
        raise InputError("no checkpoints to average")
    with ExitStack() as stack:
        files = [stack.enter_context(open_tensor_file(path)) for path in paths]
        shapes = {name: stored.shape for name, stored in files[0].header.tensors.items()}
        for file in files[1:]:
            check_tensors(file.header, shapes, file.path, against=str(paths[0]))
        return {name: average_tensor(name, files) for name in shapes}


def average_tensor(name: str, files: Sequence[TensorFile]) -> Tensor:
    """Return the mean of one tensor over all files, summed in 64 bits, with the dtype of the first."""
    first = files[0].read(name)
    total = first.double()
    for file in files[1:]:
        total += file.read(name)
    return total.div_(len(files)).to(first.dtype)
