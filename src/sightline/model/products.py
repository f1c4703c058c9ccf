"""Matrix products in training, each in the way that is fastest on this machine.

A linear map has three products: one forward, and two backward, for the gradients of its input and of its weights. torch
multiplies 32-bit numbers by MKL, which on many processors is not the fastest. The ways (`runtime.Way`):

    default    as torch does by itself
    onednn     torch's other library, twice as fast on some processors; see `onednn` for its digits
    bfloat16   factors rounded to 16 bits, sums in 32, results rounded to 16; they are stored in 32 bits again

Which way each shape takes is measured before a run (`training/precision.py`), held by `runtime`, and applies only
within `runtime.multiply_by`. Everywhere else, and on any other device than a CPU, these are torch's own products.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sightline.runtime import Way, current_products


class Linear(nn.Linear):
    """A linear map whose products take the way chosen for its shape."""

    def forward(self, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        """Return x · weightᵀ + bias."""
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*rows in"], weight: Float[Tensor, "out in"], bias: Float[Tensor, "out"] | None = None
) -> Float[Tensor, "*rows out"]:
    """Return x · weightᵀ + bias."""
    products = current_products()
    if products is None or not torch.is_grad_enabled() or x.dtype != torch.float32 or x.device.type != "cpu":
        return F.linear(x, weight, bias)
    way = products.way_of("linear", weight.size(1), weight.size(0), n_rows=x.numel() // x.size(-1))
    if way == "default":
        return F.linear(x, weight, bias)
    result: Tensor = _Linear.apply(x, weight, bias, way)  # type: ignore[no-untyped-call]
    return result


class _Linear(torch.autograd.Function):
    """A linear map whose three products take one way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, way: Way) -> Tensor:
        factors = (x, weight) if way == "onednn" else (x.bfloat16(), weight.bfloat16())
        ctx.save_for_backward(*factors)
        ctx.way, ctx.has_bias = way, bias is not None
        if way == "onednn":
            with onednn():
                return F.linear(x, weight, bias)
        result = F.linear(*factors).float()
        return result if bias is None else result.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient, rows = gradients[0].flatten(0, -2), x.flatten(0, -2)
        wants_x, wants_weight, *_ = ctx.needs_input_grad
        bias_gradient = gradient.sum(dim=0) if ctx.has_bias else None
        if ctx.way == "onednn":
            with onednn():
                x_gradient = gradient @ weight if wants_x else None
                weight_gradient = gradient.mT @ rows if wants_weight else None
        else:
            narrow = gradient.bfloat16()
            x_gradient = (narrow @ weight).float() if wants_x else None
            weight_gradient = (narrow.mT @ rows).float() if wants_weight else None
        return None if x_gradient is None else x_gradient.view(x.shape), weight_gradient, bias_gradient, None


@contextmanager
def onednn() -> Iterator[None]:
    """Let torch multiply 32-bit numbers by oneDNN.

    The setting permits 16-bit factors. oneDNN takes them only on processors where that is faster; on others it
    multiplies in 32 bits, but by its own kernels.
    """
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@contextmanager
def by_way(way: Way) -> Iterator[None]:
    """Multiply 32-bit numbers within by torch's own choice, or by oneDNN."""
    if way == "bfloat16":
        raise ValueError("bfloat16 is a way of single products, whose factors are rounded first")
    with nullcontext() if way == "default" else onednn():
        yield


@cache
def rounds_to_16_bits() -> bool:
    """Tell whether oneDNN takes 16-bit factors here, as it does where the processor has matrix units for them."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    with onednn():
        return not torch.allclose(x @ x, (x.double() @ x.double()).float(), atol=1e-4)
