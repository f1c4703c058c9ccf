"""Muon (Jordan et al. 2024), fast on a CPU: torch's own computes its matrix products in bfloat16.

Those are slow without hardware support (docs/log.md). Here they have the precision of the weights, and all matrices of
one shape are orthogonalized in one batch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class Muon(torch.optim.Muon):
    """torch's Muon, with Nesterov momentum and updates as large as AdamW's, so that one learning rate suits both.

    Its state is that of torch's Muon.
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
        for group in self.param_groups:
            same_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    same_shape[parameter.shape].append(parameter)
            for shape, parameters in same_shape.items():
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
