"""Attention: the explicit formula that shows every step, the fused kernel, the heads around both, and dropout."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sightline.model.cache import KeyValue, LayerCache
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.masks import Mask
from sightline.model.packing import Layout
from sightline.model.positions import Rotation, rotate
from sightline.model.products import Linear, linear, onednn
from sightline.runtime import current_products

UNFUSED_POINTS = ("scores", "scaled", "masked", "weights")
"""Hook points that the fused kernel never computes; a layer where one is hooked takes the explicit path."""
POINTS = ("query", "key", "value", *UNFUSED_POINTS, "head_outputs")
"""Hook points within the heads."""


def attend(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B G S D"],
    value: Float[Tensor, "B G S D"],
    mask: Mask | None = None,
    *,
    dropout: Callable[[Tensor], Tensor] | None = None,
    hooks: NoHooks = NO_HOOKS,
) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T S"]]:
    """Return softmax(QKᵀ/√d + mask)V and its attention weights (3.2.1), with a hook point at every step."""
    group_size = query.size(1) // key.size(1)  # query heads per head of keys and values
    key, value = (x.repeat_interleave(group_size, dim=1) if group_size > 1 else x for x in (key, value))  # B H S D
    scores = hooks("scores", query @ key.mT)  # B H T S
    scaled = hooks("scaled", scores / math.sqrt(query.size(-1)))
    masked = hooks("masked", scaled if mask is None else scaled + mask.additive)
    weights = hooks("weights", softmax_or_zero(masked))
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights


def softmax_or_zero(masked: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """Return the softmax; a query with every key masked gets zero weights, and gradients without NaN."""
    all_masked = (masked == -math.inf).all(dim=-1, keepdim=True)  # B H T 1
    return masked.masked_fill(all_masked, 0.0).softmax(dim=-1).masked_fill(all_masked, 0.0)


def attend_fused(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B G S D"],
    value: Float[Tensor, "B G S D"],
    mask: Mask | None = None,
) -> Float[Tensor, "B H T D"]:
    """Return the first result of `attend`, by torch's kernel, which never holds the weights in memory."""
    is_causal = mask is not None and mask.is_causal
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if mask is None or is_causal else mask.additive,
        is_causal=is_causal,
        enable_gqa=query.size(1) != key.size(1),
    )


def attend_batched(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B H S D"],
    value: Float[Tensor, "B H S D"],
    mask: Mask | None = None,
) -> Float[Tensor, "B H T D"]:
    """Return the first result of `attend`, for training on short texts.

    Among few tokens the bookkeeping of the fused kernel takes longer than batched products, whose weights are kept for
    the backward pass.
    """
    result: Tensor = _BatchedAttention.apply(query, key, value, None if mask is None else mask.additive)  # type: ignore[no-untyped-call]
    return result


MAX_BATCHED_WEIGHTS = 1 << 24
"""Attention weights of one layer that are kept in memory: those of 64 texts of 256 tokens in four heads."""


def batches_pay(query: Float[Tensor, "B H T D"], key: Float[Tensor, "B G S D"], mask: Mask | None) -> bool:
    """Whether attention is to be computed by batched products: in training, if so decided for this model."""
    products = current_products()
    if products is None or not torch.is_grad_enabled() or query.dtype != torch.float32 or query.device.type != "cpu":
        return False
    n_texts, n_heads, n_queries, width = query.shape
    n_keys = key.size(2)
    if n_heads != key.size(1) or n_texts * n_heads * n_queries * n_keys > MAX_BATCHED_WEIGHTS:
        return False
    if mask is not None and mask.hides_everything:  # whose softmax would not be a number
        return False
    return products.batches_attention(n_texts, n_heads, n_queries, n_keys, width)


class _BatchedAttention(torch.autograd.Function):
    """Two batched products, and four more backward. Queries are scaled when they are copied, so scores need not be."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, additive: Tensor | None) -> Tensor:
        n_rows, n_heads, n_queries, width = query.shape
        scaled = (query * width**-0.5).reshape(n_rows * n_heads, n_queries, width)
        k, v = (part.reshape(n_rows * n_heads, -1, width) for part in (key, value))
        with onednn():
            scores = torch.bmm(scaled, k.mT)
            if additive is not None:
                scores.view(n_rows, n_heads, n_queries, -1).add_(additive)
            weights = scores.softmax(dim=-1)
            head_outputs = torch.bmm(weights, v)
        ctx.save_for_backward(scaled, k, v, weights)
        return head_outputs.view(query.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled, k, v, weights = ctx.saved_tensors
        n_rows, n_heads, _, width = gradients[0].shape
        gradient = gradients[0].reshape(scaled.shape)
        with onednn():
            value_gradient = torch.bmm(weights.mT, gradient)
            weights_gradient = torch.bmm(gradient, v.mT)
            scores_gradient = torch._softmax_backward_data(weights_gradient, weights, -1, torch.float32)
            query_gradient = torch.bmm(scores_gradient, k).mul_(width**-0.5)
            key_gradient = torch.bmm(scores_gradient.mT, scaled)
        parts = (query_gradient, key_gradient, value_gradient)
        return (*(part.view(n_rows, n_heads, -1, width) for part in parts), None)


class MultiHeadAttention(nn.Module):
    """h parallel heads, each of width d_model / h or `d_head`, concatenated and projected (3.2.2).

    One class for all three uses: encoder self-attention, causal self-attention, and, as `cross_attend`,
    cross-attention with queries from the decoder and keys and values from the encoder's output. With `make_qk_norm`,
    which builds a norm of a given width, the queries and keys of each head are normalized before they are rotated.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        qkv_bias: bool = True,
        output_bias: bool = True,
        make_qk_norm: Callable[[int], nn.Module] | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads or n_heads, d_head or d_model // n_heads
        self.query = Linear(d_model, n_heads * self.d_head, bias=qkv_bias)
        self.key = Linear(d_model, self.n_kv_heads * self.d_head, bias=qkv_bias)
        self.value = Linear(d_model, self.n_kv_heads * self.d_head, bias=qkv_bias)
        self.output = Linear(n_heads * self.d_head, d_model, bias=output_bias)
        self.query_norm = make_qk_norm(self.d_head) if make_qk_norm else None
        self.key_norm = make_qk_norm(self.d_head) if make_qk_norm else None
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        *,
        layout: Layout,
        mask: Mask | None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Let every token of x attend to the tokens of its own sentence, and to its cached ones."""
        linears = (self.query, self.key, self.value)
        widths = [linear.out_features for linear in linears]
        query, key, value = torch.split(layout.pad(fused_projection(x, *linears)), widths, dim=-1)
        query, key = self.split_heads(query, self.query_norm), self.split_heads(key, self.key_norm)
        value = self.split_heads(value)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.extend(key, value)
        return self.merge_heads(self.attend_heads(query, key, value, mask, hooks), layout, hooks)

    def cross_attend(
        self,
        x: Float[Tensor, "*rows E"],
        cross_kv: KeyValue,
        *,
        layout: Layout,
        mask: Mask | None,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Let every token of x attend to the encoder's output, whose keys and values `project_cross_kv` computed.

        Several rows of x may share one row of `cross_kv` (the beams of one sentence): they are then folded into the
        query dimension, so that keys and values are neither copied nor read twice.
        """
        query = layout.pad(self.query(x))  # R T HD
        n_rows, n_sources = query.size(0), cross_kv[0].size(0)
        if n_rows == n_sources:
            head_outputs = self.attend_heads(self.split_heads(query, self.query_norm), *cross_kv, mask, hooks)
        elif not hooks.watches(*POINTS):
            folded = self.split_heads(query.reshape(n_sources, -1, query.size(-1)), self.query_norm)  # B H KT D
            head_outputs = self.attend_heads(folded, *cross_kv, mask, hooks).transpose(1, 2)
            head_outputs = head_outputs.reshape(*query.shape[:2], self.n_heads, self.d_head).transpose(1, 2)
        else:  # hooks are to see each row separately
            n_beams = n_rows // n_sources
            key, value = (part.repeat_interleave(n_beams, dim=0) for part in cross_kv)
            mask = None if mask is None else Mask(mask.additive.repeat_interleave(n_beams, dim=0))
            head_outputs = self.attend_heads(self.split_heads(query, self.query_norm), key, value, mask, hooks)
        return self.merge_heads(head_outputs, layout, hooks)

    def project_cross_kv(self, x: Float[Tensor, "*rows E"], layout: Layout) -> KeyValue:
        """Return the keys and values of the encoder's output, computed once for all decoding steps."""
        key, value = layout.pad(fused_projection(x, self.key, self.value)).chunk(2, dim=-1)
        return self.split_heads(key, self.key_norm), self.split_heads(value)

    def split_heads(self, x: Float[Tensor, "B T HD"], norm: nn.Module | None = None) -> Float[Tensor, "B H T D"]:
        """Split the last dimension into heads, and normalize each if there is a norm."""
        heads = x.view(*x.shape[:2], x.size(-1) // self.d_head, self.d_head)  # B T H D
        return (heads if norm is None else norm(heads)).transpose(1, 2)

    def attend_heads(
        self,
        query: Float[Tensor, "B H T D"],
        key: Float[Tensor, "B G S D"],
        value: Float[Tensor, "B G S D"],
        mask: Mask | None,
        hooks: NoHooks,
    ) -> Float[Tensor, "B H T D"]:
        """Attend in every head: fused, or explicitly where hooks or attention dropout need the weights."""
        query, key, value = hooks("query", query), hooks("key", key), hooks("value", value)
        if self.dropout.active or hooks.watches(*UNFUSED_POINTS):
            head_outputs, _ = attend(query, key, value, mask, dropout=self.dropout, hooks=hooks)
        elif batches_pay(query, key, mask):
            head_outputs = attend_batched(query, key, value, mask)
        else:
            head_outputs = attend_fused(query, key, value, mask)
        return hooks("head_outputs", head_outputs)

    def merge_heads(
        self, head_outputs: Float[Tensor, "B H T D"], layout: Layout, hooks: NoHooks
    ) -> Float[Tensor, "*rows E"]:
        """Concatenate the heads and apply the output projection."""
        merged = hooks("merged_heads", layout.pack(head_outputs.transpose(1, 2).flatten(2)))
        return hooks("output", self.output(merged))


MIN_ROWS_TO_FUSE = 64
"""From this many rows on, concatenating the weights costs less than a separate product with each."""


def fused_projection(x: Float[Tensor, "*rows E"], *linears: nn.Linear) -> Float[Tensor, "*rows out"]:
    """Apply several projections to the same x as one matrix product; return their results concatenated."""
    if x.numel() < MIN_ROWS_TO_FUSE * x.size(-1):
        return torch.cat([each(x) for each in linears], dim=-1)
    weights: list[Tensor] = [each.weight for each in linears]
    if all(each.bias is None for each in linears):
        return linear(x, torch.cat(weights))
    biases: list[Tensor] = [
        weight.new_zeros(weight.size(0)) if each.bias is None else each.bias
        for each, weight in zip(linears, weights, strict=True)
    ]
    return linear(x, torch.cat(weights), torch.cat(biases))


class Dropout(nn.Module):
    """Zero some elements during training and scale up the others, which keeps the mean.

    The distribution is that of torch's dropout, at a third of its cost on a CPU.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    @property
    def active(self) -> bool:
        """Whether dropout applies now: in training, with a probability above 0."""
        return self.training and self.probability > 0

    def forward(self, x: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Apply dropout to x."""
        return x * keep_factors(x, self.probability) if self.active else x

    def add(self, residual: Float[Tensor, "*rows E"], x: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Return residual + dropout(x), in one pass over memory."""
        return torch.addcmul(residual, x, keep_factors(x, self.probability)) if self.active else residual + x

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"{self.probability}"


class TokenDropout(Dropout):
    """Zero the vectors of whole tokens during training and scale up the others (Gal and Ghahramani 2016, 4.2).

    A model of few examples cannot learn by heart which single word gives an example away.
    """

    def forward(self, x: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Apply dropout to the rows of x."""
        return x * keep_factors(x[..., :1], self.probability) if self.active else x


DROPOUT_LEVELS = 1 << 16
"""Resolution of the probability: sixteen bits."""


def keep_factors(like: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Return, for each element, 0 with the given probability and 1 / (1 − probability) otherwise.

    torch draws one number per element and compares; sixteen bits per element suffice, so one 64-bit draw serves four.
    The draws come from torch's own generator: seeding and restoring its state reproduce them.
    """
    if like.device.type == "mps":  # which has no 64-bit draws
        return torch.rand_like(like).ge_(probability).div_(1 - probability)
    n_dropped = round(probability * DROPOUT_LEVELS)
    # The lower bound matters: without it random_() leaves the sign bit at zero, and every fourth element is biased.
    words = torch.empty((like.numel() + 3) // 4, dtype=torch.int64, device=like.device).random_(-(1 << 63), None)
    bits = words.view(torch.int16)[: like.numel()].view(like.shape)
    return bits.ge(n_dropped - DROPOUT_LEVELS // 2).to(like.dtype).mul_(DROPOUT_LEVELS / (DROPOUT_LEVELS - n_dropped))
