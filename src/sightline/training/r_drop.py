"""R-Drop (Liang et al. 2021): two passes with different dropout must predict the same distribution.

Rows come in two halves: row i of the second half is row i of the first, with another dropout. The loss is the
cross-entropy of both plus the symmetric Kullback–Leibler divergence of their distributions p and q:

    CE(p) + CE(q) + r_drop · ½ [KL(p‖q) + KL(q‖p)]
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sightline.errors import InputError
from sightline.training.loss import chunks

CHUNK_BYTES = 16 << 20
"""Size of the logits of one chunk. They are read a dozen times, so they should fit in the CPU's cache (docs/log.md)."""


def cross_entropy(
    scores: Float[Tensor, "N C"], targets: Int[Tensor, "N"], *, smoothing: float = 0.0, r_drop: float = 0.0
) -> Float[Tensor, ""]:
    """Return the sum of the rows' cross-entropy, plus `r_drop` times the divergence of the two halves."""
    total = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    if r_drop:
        first, second = F.log_softmax(scores, dim=1).chunk(2)
        total = total + r_drop / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
    return total


def projected_r_drop(
    hidden: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    targets: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
    r_drop: float,
) -> Float[Tensor, ""]:
    """Return the same for the logits hidden · weightᵀ (+ bias), which never exist all at once (see `loss`)."""
    if targets.shape != hidden.shape[:1] or len(targets) % 2:
        raise InputError(f"{targets.numel()} targets do not match two halves of {hidden.size(0)} rows")
    with torch.autocast(hidden.device.type, enabled=False):
        arguments = (hidden.to(weight.dtype), weight, bias, targets, smoothing, r_drop)
        loss: Tensor = _ProjectedRDrop.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedRDrop(torch.autograd.Function):
    """Computes gradients in the forward pass, as in `loss`, which also says what is applied to the E columns and why.

    With d = log p − log q, the logits of p have the gradient p − target + ½ r_drop · [p (d − KL(p‖q)) + p − q].
    Both distributions are kept as e = exp(logits − their maximum) and its sum s; log-probabilities differ from
    logits by one number per row, so d is the difference of the logits minus that of those numbers.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        r_drop: float,
    ) -> Tensor:
        n_pairs, vocab_size = hidden.size(0) // 2, weight.size(0)
        half, uniform = r_drop / 2, smoothing / vocab_size
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.zeros_like(weight)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        losses = hidden.new_empty(2, n_pairs)
        weight_sum = weight.sum(dim=0)  # E
        bias_sum = 0.0 if bias is None else bias.sum()
        halves = hidden.view(2, n_pairs, hidden.size(1))
        for at in chunks(n_pairs, row_bytes=2 * vocab_size * hidden.element_size(), at_once=CHUNK_BYTES):
            rows = halves[:, at].flatten(0, 1)  # 2C E, the first half of them p's, the second q's
            logits = rows @ weight.mT if bias is None else torch.addmm(bias, rows, weight.mT)
            logits = logits.view(2, -1, vocab_size)  # 2 C V
            target = targets[at].expand(2, -1)[:, :, None]  # 2 C 1
            target_logit = logits.gather(2, target)
            apart = logits[0] - logits[1]  # C V
            highest = logits.amax(dim=2, keepdim=True)
            exponentials = logits.sub_(highest).exp_()
            total = exponentials.sum(dim=2, keepdim=True)  # 2 C 1
            normalizer = highest + total.log()
            offset = normalizer[0] - normalizer[1]  # C 1: d = apart − offset
            means = torch.bmm(exponentials.transpose(0, 1), apart[:, :, None]).transpose(0, 1) / total  # of apart
            away = torch.stack((means[0] - offset, offset - means[1]))  # 2 C 1: KL(p‖q), KL(q‖p)
            sum_of_logits = (rows @ weight_sum + bias_sum).view(2, -1, 1)
            smoothed = normalizer - (1 - smoothing) * target_logit - uniform * sum_of_logits
            losses[:, at] = (smoothed + half * away).squeeze(2)

            p, q = exponentials
            apart.mul_(half)
            of_p = (apart + (1 + half * (1 - offset - away[0]))).mul_(p).addcmul_(q, total[0] / total[1], value=-half)
            of_q = torch.sub(1 + half * (1 + offset - away[1]), apart, out=apart)
            of_q.mul_(q).addcmul_(p, total[1] / total[0], value=-half)
            gradient = torch.stack((of_p, of_q), out=exponentials)  # times total
            gradient = gradient.scatter_add_(2, target, (smoothing - 1) * total).flatten(0, 1)  # 2C V
            totals = total.flatten(0, 1)  # 2C 1
            by_rows = (gradient @ weight).div_(totals).sub_(uniform * weight_sum)
            hidden_gradient.view_as(halves)[:, at] = by_rows.view(2, -1, hidden.size(1))
            weight_gradient.addmm_(gradient.mT, rows / totals)
            if bias_gradient is not None:
                bias_gradient.addmv_(gradient.mT, 1 / totals.squeeze(1))
        weight_gradient.sub_(uniform * hidden.sum(dim=0))
        if bias_gradient is not None:
            bias_gradient.sub_(uniform * hidden.size(0))
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None, None)
