"""Cross-entropy with label smoothing and R-Drop, for given logits and for a projection to a large vocabulary.

R-Drop (Liang et al. 2021): two passes with different dropout must predict the same distribution. Rows come in two
halves: row i of the second half is row i of the first, with another dropout. The loss is the cross-entropy of both plus
the symmetric Kullback–Leibler divergence of their distributions p and q:

    CE(p) + CE(q) + r_drop · ½ [KL(p‖q) + KL(q‖p)]
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from sightline.errors import InputError
from sightline.model.logits import CHUNK_BYTES, iter_chunks
from sightline.model.products import by_way
from sightline.runtime import Way, current_products


def cross_entropy(
    scores: Float[Tensor, "N C"], targets: Int[Tensor, "N"], *, smoothing: float = 0.0, r_drop: float = 0.0
) -> Float[Tensor, ""]:
    """Return the sum of the rows' cross-entropy, plus `r_drop` times the divergence of the two halves."""
    total = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    if r_drop:
        first, second = F.log_softmax(scores, dim=1).chunk(2)
        total = total + r_drop / 2 * ((first.exp() - second.exp()) * (first - second)).sum()
    return total


def projected_cross_entropy(
    hidden: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    targets: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> Float[Tensor, ""]:
    """Return `cross_entropy` of the logits hidden · weightᵀ (+ bias), which never exist all at once.

    The logits of a whole batch (4,000 tokens × 32,000 entries) would be half a gigabyte, and as much again for their
    gradient. A chunk of rows is projected, scored, and turned into its part of the gradients right away; backward only
    scales them.

    The smoothed target (5.4) gives 1 − smoothing to the target token and spreads the rest evenly over the vocabulary.
    """
    if targets.shape != hidden.shape[:1]:
        raise InputError(f"{targets.numel()} targets do not match {hidden.size(0)} rows")
    if r_drop and len(targets) % 2:
        raise InputError(f"R-Drop compares two halves: {len(targets)} rows are an odd number")
    if not torch.is_grad_enabled():  # autograd would still ask for the gradient of the weights
        weight, bias = weight.detach(), None if bias is None else bias.detach()
    with torch.autocast(hidden.device.type, enabled=False):  # sums over a vocabulary need the precision of the weights
        hidden = hidden.to(weight.dtype)
        way = way_of_projection(hidden, weight)
        loss: Tensor
        if way == "bfloat16" and not r_drop:
            narrow = (hidden, weight, bias, targets, smoothing)
            loss = _NarrowProjectedCrossEntropy.apply(*narrow)  # type: ignore[no-untyped-call]
        else:
            arguments = (hidden, weight, bias, targets, smoothing, r_drop)
            with by_way("default" if way == "bfloat16" else way):
                loss = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss


def way_of_projection(hidden: Float[Tensor, "N E"], weight: Float[Tensor, "V E"]) -> Way:
    """Return how the products of an output projection are computed now."""
    products = current_products()
    if products is None or not torch.is_grad_enabled() or weight.dtype != torch.float32 or weight.device.type != "cpu":
        return "default"
    return products.way_of("projection", weight.size(1), weight.size(0), n_rows=hidden.size(0))


R_DROP_CHUNK_BYTES = 16 << 20
"""Size of a chunk with R-Drop: logits are read a dozen times, so they should fit in the CPU's cache (docs/log.md)."""


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Computes gradients in the forward pass, where the probabilities are; what is saved is as small as the inputs.

    With e = exp(logits − their maximum) and s its sum, the gradient of the logits is e/s − the smoothed target. The
    division and the uniform part of the target are not applied to the V columns, but to the E columns of the products.
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
        n_passes, chunk_bytes = (2, R_DROP_CHUNK_BYTES) if r_drop else (1, CHUNK_BYTES)
        vocab_size, d_model = weight.shape
        half, uniform = r_drop / 2, smoothing / vocab_size
        passes = hidden.view(n_passes, -1, d_model)  # P N E: one pass, or the two of R-Drop
        targets = targets.view(n_passes, -1, 1)
        n_rows = passes.size(1)
        wants_hidden, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        hidden_gradient = torch.empty_like(passes) if wants_hidden else None
        weight_gradient = weight.new_empty(weight.shape) if wants_weight else None  # the first chunk fills it
        bias_gradient = torch.zeros_like(bias) if bias is not None and wants_bias else None
        losses = hidden.new_empty(n_passes, n_rows, 1)
        weight_sum = weight.sum(dim=0)  # E
        bias_sum = 0.0 if bias is None else bias.sum()
        row_bytes = n_passes * vocab_size * hidden.element_size()
        for at in iter_chunks(n_rows, row_bytes=row_bytes, chunk_bytes=chunk_bytes):
            # 1) project
            rows, target = passes[:, at].flatten(0, 1), targets[:, at]  # PC E, P C 1
            logits = rows @ weight.mT if bias is None else torch.addmm(bias, rows, weight.mT)
            logits = logits.view(n_passes, -1, vocab_size)  # P C V

            # 2) score; from here on the memory of the logits holds the exponentials, then the gradient
            target_logit = logits.gather(2, target)
            difference = logits[0] - logits[1] if r_drop else None  # C V
            highest = logits.amax(dim=2, keepdim=True)
            exponentials = logits.sub_(highest).exp_()
            total = exponentials.sum(dim=2, keepdim=True)  # P C 1
            normalizer = highest + total.log()
            sum_of_logits = (rows @ weight_sum + bias_sum).view_as(total)
            loss = normalizer - (1 - smoothing) * target_logit - uniform * sum_of_logits
            if difference is not None:
                loss += half * add_divergence_(exponentials, difference, total, normalizer, scale=half)
            losses[:, at] = loss
            gradient = exponentials.scatter_add_(2, target, (smoothing - 1) * total)  # times total

            # 3) pass the gradient on
            gradient, total = gradient.flatten(0, 1), total.flatten(0, 1)  # PC V, PC 1
            if hidden_gradient is not None:
                by_rows = (gradient @ weight).div_(total).sub_(uniform * weight_sum)
                hidden_gradient[:, at] = by_rows.view(n_passes, -1, d_model)
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient.mT, rows / total, beta=0 if at.start == 0 else 1)
            if bias_gradient is not None:
                bias_gradient.addmv_(gradient.mT, 1 / total.squeeze(1))
        if weight_gradient is not None and smoothing:
            weight_gradient.sub_(uniform * hidden.sum(dim=0))
        if bias_gradient is not None:
            bias_gradient.sub_(uniform * hidden.size(0))
        ctx.save_for_backward(
            None if hidden_gradient is None else hidden_gradient.flatten(0, 1), weight_gradient, bias_gradient
        )
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None, None)


class _NarrowProjectedCrossEntropy(torch.autograd.Function):
    """The same with logits, probabilities and factors of 16 bits; losses and the gradients of chunks add up in 32.

    A logit keeps eight binary digits: one between 8 and 16 is right to 0.03, and so, in proportion, is its probability.
    The errors of tokens are as often up as down; what becomes of models trained this way is in docs/log.md.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        vocab_size, uniform = weight.size(0), smoothing / weight.size(0)
        wants_hidden, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        hidden_gradient = torch.empty_like(hidden) if wants_hidden else None
        weight_gradient = torch.zeros_like(weight) if wants_weight else None
        bias_gradient = torch.zeros_like(bias) if bias is not None and wants_bias else None
        weight_sum = weight.sum(dim=0)  # E
        bias_sum = 0.0 if bias is None else bias.sum()
        rows_narrow, weight_narrow = hidden.bfloat16(), weight.bfloat16()
        bias_narrow = None if bias is None else bias.bfloat16()
        losses = hidden.new_empty(hidden.size(0), 1)
        row_bytes = vocab_size * weight_narrow.element_size()
        for at in iter_chunks(hidden.size(0), row_bytes=row_bytes, chunk_bytes=CHUNK_BYTES):
            rows, target = rows_narrow[at], targets[at, None]  # C E, C 1
            logits = F.linear(rows, weight_narrow, bias_narrow)  # C V
            gradient = logits.softmax(dim=1)  # the probabilities, at first
            target_logit, probability = logits.gather(1, target).float(), gradient.gather(1, target).float()
            log_probability = probability.clamp(min=torch.finfo(torch.float32).tiny).log()
            sum_of_logits = hidden[at] @ weight_sum[:, None] + bias_sum
            normalizer = target_logit - log_probability
            losses[at] = normalizer - (1 - smoothing) * target_logit - uniform * sum_of_logits
            gradient.scatter_(1, target, (probability - (1 - smoothing)).bfloat16())
            if hidden_gradient is not None:
                torch.sub((gradient @ weight_narrow).float(), uniform * weight_sum, out=hidden_gradient[at])
            if weight_gradient is not None:
                weight_gradient.add_(gradient.mT @ rows)
            if bias_gradient is not None:
                bias_gradient.add_(gradient.sum(dim=0, dtype=torch.float32))
        if weight_gradient is not None and smoothing:
            weight_gradient.sub_(uniform * hidden.sum(dim=0))
        if bias_gradient is not None:
            bias_gradient.sub_(uniform * hidden.size(0))
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if part is None else part * gradients[0] for part in ctx.saved_tensors)
        return (*scaled, None, None)


def add_divergence_(
    exponentials: Float[Tensor, "2 N V"],
    difference: Float[Tensor, "N V"],
    total: Float[Tensor, "2 N 1"],
    normalizer: Float[Tensor, "2 N 1"],
    *,
    scale: float,
) -> Float[Tensor, "2 N 1"]:
    """Return KL(p‖q) and KL(q‖p) of each row; add `scale` times the gradient of their sum to the exponentials.

    With d = log p − log q, the logits of p have the gradient p (d − KL(p‖q)) + p − q. Log-probabilities differ from
    logits by one number per row, so d is the difference of the logits minus that of those numbers. `difference` is
    overwritten.
    """
    p, q = exponentials  # each times its total, as the gradient will be
    offset = normalizer[0] - normalizer[1]  # N 1: d = difference − offset
    means = torch.bmm(exponentials.transpose(0, 1), difference[:, :, None]).transpose(0, 1) / total  # of the difference
    divergence = torch.stack((means[0] - offset, offset - means[1]))
    difference.mul_(scale)
    of_p = (difference + (1 + scale * (1 - offset - divergence[0]))).mul_(p)
    of_p.addcmul_(q, total[0] / total[1], value=-scale)
    of_q = torch.sub(1 + scale * (1 + offset - divergence[1]), difference, out=difference).mul_(q)
    of_q.addcmul_(p, total[1] / total[0], value=-scale)
    torch.stack((of_p, of_q), out=exponentials)
    return divergence
