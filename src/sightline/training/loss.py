"""Cross-entropy over a large vocabulary, computed together with the projection that makes its logits.

All logits of a batch (4,000 tokens × 32,000 words: half a gigabyte, and as much again for their gradient) never exist
at once. A chunk of rows is projected, scored, and turned into its share of the gradients at once; backward has only to
scale what is there.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from sightline.errors import InputError

CHUNK_BYTES = 64 << 20
"""Logits at once. Smaller chunks save memory but make thin matrix products, which are slow (figures in docs/log.md)."""


def projected_cross_entropy(
    hidden: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    targets: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the sum over tokens of the cross-entropy of hidden · weightᵀ (+ bias), with label smoothing (5.4).

    The smoothed target gives 1 − smoothing to the right word and shares the rest evenly among all V words.
    """
    if targets.shape != hidden.shape[:1]:
        raise InputError(f"{targets.numel()} targets cannot belong to {hidden.size(0)} rows")
    with torch.autocast(hidden.device.type, enabled=False):  # sums over a vocabulary need the weights' own precision
        arguments = (hidden.to(weight.dtype), weight, bias, targets, smoothing)
        loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Gradients are made on the way forward, where the probabilities are; what is saved is as small as the inputs.

    With e = exp(logits − their maximum) and s its sum, the gradient of the logits is e/s − the smoothed target. Neither
    the division nor the even share of the target is ever done on the V columns: both are left to the E columns of
    what is multiplied with them.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        n_rows, n_words = hidden.size(0), weight.size(0)
        share = smoothing / n_words
        wants_hidden, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        hidden_gradient = torch.empty_like(hidden) if wants_hidden else None
        weight_gradient = weight.new_empty(weight.shape) if wants_weight else None  # the first chunk fills it
        bias_gradient = torch.zeros_like(bias) if bias is not None and wants_bias else None
        losses = hidden.new_empty(n_rows)
        word_sum = weight.sum(dim=0)  # E
        bias_sum = 0.0 if bias is None else bias.sum()
        for at in chunks(n_rows, row_bytes=n_words * hidden.element_size(), at_once=CHUNK_BYTES):
            rows, right = hidden[at], targets[at, None]  # C E, C 1
            logits = rows @ weight.mT if bias is None else torch.addmm(bias, rows, weight.mT)  # C V
            highest = logits.amax(dim=1, keepdim=True)
            right_logit = logits.gather(1, right)
            exponentials = logits.sub_(highest).exp_()
            total = exponentials.sum(dim=1, keepdim=True)  # C 1
            normalizer = (highest + total.log()).squeeze(1)
            sum_of_logits = rows @ word_sum + bias_sum
            losses[at] = normalizer - (1 - smoothing) * right_logit.squeeze(1) - share * sum_of_logits
            gradient = exponentials.scatter_add_(1, right, (smoothing - 1) * total)  # C V, times total
            if hidden_gradient is not None:
                torch.mm(gradient, weight, out=hidden_gradient[at])
                hidden_gradient[at].div_(total).sub_(share * word_sum)
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient.mT, rows / total, beta=0 if at.start == 0 else 1)
            if bias_gradient is not None:
                bias_gradient.addmv_(gradient.mT, 1 / total.squeeze(1))
        if weight_gradient is not None and smoothing:
            weight_gradient.sub_(share * hidden.sum(dim=0))
        if bias_gradient is not None:
            bias_gradient.sub_(share * n_rows)
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None)


def chunks(n_rows: int, *, row_bytes: int, at_once: int) -> Iterator[slice]:
    """Cut rows into runs of at most `at_once` bytes of logits; there is always a first, if need be an empty one."""
    step = max(1, at_once // row_bytes)
    return (slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step))
