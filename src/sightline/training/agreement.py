"""R-Drop (Liang et al. 2021): what is read twice, with other numbers dropped, must be answered alike both times.

Rows come in two halves: row i of the second is the same answer as row i of the first, after another dropout. Added to
the cross-entropy of both is how far their distributions p and q are apart (the Kullback–Leibler divergence, both ways):

    CE(p) + CE(q) + agreement · ½ [KL(p‖q) + KL(q‖p)]
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sightline.errors import InputError
from sightline.training.loss import chunks


def cross_entropy(
    scores: Float[Tensor, "N C"], targets: Int[Tensor, "N"], *, smoothing: float = 0.0, agreement: float = 0.0
) -> Float[Tensor, ""]:
    """Return the sum of the rows' cross-entropy, and of what their halves do not agree in where that counts."""
    total = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    if agreement:
        first, second = F.log_softmax(scores, dim=1).chunk(2)
        total = total + agreement / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
    return total


def projected_agreement(
    hidden: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    targets: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
    agreement: float,
) -> Float[Tensor, ""]:
    """Return the same of the scores hidden · weightᵀ (+ bias), which never exist all at once (see `loss`)."""
    if targets.shape != hidden.shape[:1] or len(targets) % 2:
        raise InputError(f"{targets.numel()} targets cannot belong to two halves of {hidden.size(0)} rows")
    with torch.autocast(hidden.device.type, enabled=False):
        arguments = (hidden.to(weight.dtype), weight, bias, targets, smoothing, agreement)
        loss: Tensor = _ProjectedAgreement.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


class _ProjectedAgreement(torch.autograd.Function):
    """Gradients are made on the way forward, as in `loss`.

    With d = log p − log q, the logits of p have the gradient p − target + ½ agreement · [p (d − KL(p‖q)) + p − q].
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        agreement: float,
    ) -> Tensor:
        n_pairs, n_words = hidden.size(0) // 2, weight.size(0)
        half, share = agreement / 2, smoothing / n_words
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.zeros_like(weight)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        total = hidden.new_zeros(())
        halves = hidden.view(2, n_pairs, hidden.size(1))
        for at in chunks(n_pairs, row_bytes=2 * n_words * hidden.element_size()):
            rows = halves[:, at].flatten(0, 1)  # C E, the first half of them p's, the second q's
            right = targets[at].repeat(2)[:, None]  # C 1
            logits = rows @ weight.mT if bias is None else torch.addmm(bias, rows, weight.mT)
            logs = torch.log_softmax(logits, dim=1)  # C V
            total += (smoothing - 1) * logs.gather(1, right).sum() - share * logs.sum()
            probabilities = torch.exp(logs, out=logits)
            apart = logs[: len(logs) // 2].sub_(logs[len(logs) // 2 :])  # d, for p; q's is −d
            p, q = probabilities.chunk(2)
            gradients = []
            for ours, theirs, sign in ((p, q, 1), (q, p, -1)):
                away = (ours * apart).sum(dim=1, keepdim=True).mul_(sign)  # KL(ours‖theirs)
                total += half * away.sum()
                factor = (apart * (sign * half)).add_(1 + half - half * away)
                gradients.append(factor.mul_(ours).sub_(theirs, alpha=half).sub_(share))
            gradient = torch.cat(gradients)  # C V
            gradient.scatter_add_(1, right, gradient.new_full(right.shape, smoothing - 1))
            hidden_gradient.view_as(halves)[:, at] = (gradient @ weight).view(2, len(p), hidden.size(1))
            weight_gradient.addmm_(gradient.mT, rows)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(dim=0)
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None, None)
