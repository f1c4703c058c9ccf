"""Cross-entropy over a large vocabulary, computed together with the projection that makes its logits.

The logits of a whole batch (4,000 tokens × 32,000 entries: half a gigabyte, and as much again for their gradient) never
exist at once. A chunk of rows is projected, scored, and turned into its part of the gradients right away; backward only
scales them.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from sightline.errors import InputError

CHUNK_BYTES = 64 << 20
"""Size of the logits of one chunk. Smaller chunks save memory but make thin, slow matrix products (docs/log.md)."""


def projected_cross_entropy(
    hidden: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    targets: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the sum over tokens of the cross-entropy of hidden · weightᵀ (+ bias), with label smoothing (5.4).

    The smoothed target gives 1 − smoothing to the target token and spreads the rest evenly over the vocabulary.
    """
    if targets.shape != hidden.shape[:1]:
        raise InputError(f"{targets.numel()} targets do not match {hidden.size(0)} rows")
    with torch.autocast(hidden.device.type, enabled=False):  # sums over a vocabulary need the precision of the weights
        arguments = (hidden.to(weight.dtype), weight, bias, targets, smoothing)
        loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Computes gradients in the forward pass, where the probabilities are; what is saved is as small as the inputs.

    With e = exp(logits − their maximum) and s its sum, the gradient of the logits is e/s − the smoothed target. The
    division and the uniform part of the target are not applied to the V columns, but to the E columns of the products.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        n_rows, vocab_size = hidden.size(0), weight.size(0)
        uniform = smoothing / vocab_size
        wants_hidden, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        hidden_gradient = torch.empty_like(hidden) if wants_hidden else None
        weight_gradient = weight.new_empty(weight.shape) if wants_weight else None  # the first chunk fills it
        bias_gradient = torch.zeros_like(bias) if bias is not None and wants_bias else None
        losses = hidden.new_empty(n_rows)
        weight_sum = weight.sum(dim=0)  # E
        bias_sum = 0.0 if bias is None else bias.sum()
        for at in chunks(n_rows, row_bytes=vocab_size * hidden.element_size(), at_once=CHUNK_BYTES):
            rows, target = hidden[at], targets[at, None]  # C E, C 1
            logits = rows @ weight.mT if bias is None else torch.addmm(bias, rows, weight.mT)  # C V
            highest = logits.amax(dim=1, keepdim=True)
            target_logit = logits.gather(1, target)
            exponentials = logits.sub_(highest).exp_()
            total = exponentials.sum(dim=1, keepdim=True)  # C 1
            normalizer = (highest + total.log()).squeeze(1)
            sum_of_logits = rows @ weight_sum + bias_sum
            losses[at] = normalizer - (1 - smoothing) * target_logit.squeeze(1) - uniform * sum_of_logits
            gradient = exponentials.scatter_add_(1, target, (smoothing - 1) * total)  # C V, times total
            if hidden_gradient is not None:
                torch.mm(gradient, weight, out=hidden_gradient[at])
                hidden_gradient[at].div_(total).sub_(uniform * weight_sum)
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient.mT, rows / total, beta=0 if at.start == 0 else 1)
            if bias_gradient is not None:
                bias_gradient.addmv_(gradient.mT, 1 / total.squeeze(1))
        if weight_gradient is not None and smoothing:
            weight_gradient.sub_(uniform * hidden.sum(dim=0))
        if bias_gradient is not None:
            bias_gradient.sub_(uniform * n_rows)
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None)


def chunks(n_rows: int, *, row_bytes: int, at_once: int) -> Iterator[slice]:
    """Yield slices of at most `at_once` bytes of logits; the first may be empty."""
    step = max(1, at_once // row_bytes)
    return (slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step))
