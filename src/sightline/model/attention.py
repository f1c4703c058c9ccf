"""Attention, once: the explicit formula that shows every step, the fused kernel that is fast, the heads around both."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sightline.model.cache import KeyValue, LayerCache
from sightline.model.dropout import Dropout
from sightline.model.masks import Mask
from sightline.model.packing import Layout
from sightline.model.positions import Rotation, rotate
from sightline.model.probe import IDLE, Idle

UNSEEN_BY_KERNEL = ("scores", "scaled", "masked", "weights")
"""Points the fused kernel never forms; a layer where one is watched takes the explicit path."""
POINTS = ("query", "key", "value", *UNSEEN_BY_KERNEL, "mixed")
"""Points within the heads."""


def softmax_or_zero(masked: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """Return the softmax; a query that may look at nothing looks at nothing, and passes back no NaN."""
    blind = (masked == -math.inf).all(dim=-1, keepdim=True)  # B H T 1
    return masked.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)


def attend(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B G S D"],
    value: Float[Tensor, "B G S D"],
    mask: Mask | None = None,
    *,
    dropout: Dropout | None = None,
    probe: Idle = IDLE,
) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B H T S"]]:
    """Return softmax(QKᵀ/√d + mask)V and the weights of that mixture (3.2.1), every step open to the probe."""
    share = query.size(1) // key.size(1)  # query heads to one head of keys and values
    key, value = (x.repeat_interleave(share, dim=1) if share > 1 else x for x in (key, value))  # B H S D
    scores = probe("scores", query @ key.mT)  # B H T S
    scaled = probe("scaled", scores / math.sqrt(query.size(-1)))
    masked = probe("masked", scaled if mask is None else scaled + mask.additive)
    weights = probe("weights", softmax_or_zero(masked))
    kept = weights if dropout is None else dropout(weights)
    return kept @ value, weights


def attend_fused(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B G S D"],
    value: Float[Tensor, "B G S D"],
    mask: Mask | None = None,
) -> Float[Tensor, "B H T D"]:
    """Return what `attend` returns first, by torch's kernel, which never holds the weights in memory."""
    known_by_heart = mask is not None and mask.is_look_ahead
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if mask is None or known_by_heart else mask.additive,
        is_causal=known_by_heart,
        enable_gqa=query.size(1) != key.size(1),
    )


class MultiHeadAttention(nn.Module):
    """h heads side by side, each of width d_model / h, concatenated and projected (3.2.2).

    All three uses are this one class: encoder self-attention, masked self-attention, and, as `across`, attention whose
    queries come from the decoder and whose keys and values come from the encoder's output.
    """

    def __init__(
        self, *, d_model: int, n_heads: int, n_kv_heads: int | None = None, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads or n_heads, d_model // n_heads
        self.query = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.key = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.value = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(n_heads * self.d_head, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        *,
        layout: Layout,
        mask: Mask | None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Let every token of x look at the tokens of its own sentence, and at those the cache remembers of it."""
        linears = (self.query, self.key, self.value)
        widths = [linear.out_features for linear in linears]
        query, key, value = (self.split(part) for part in torch.split(layout.pad(joined(x, *linears)), widths, dim=-1))
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.extend(key, value)
        return self.output_of(self.mix(query, key, value, mask, probe), layout, probe)

    def across(
        self,
        x: Float[Tensor, "*rows E"],
        memory: KeyValue,
        *,
        layout: Layout,
        mask: Mask | None,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Let every token of x look at what `remember` made of the encoder's output.

        Several rows of x may share one row of memory (the beams of one sentence): they then ask side by side, as more
        queries, so that the memory is neither copied nor read twice.
        """
        query = layout.pad(self.query(x))  # R T HD
        n_rows, n_memories = query.size(0), memory[0].size(0)
        if n_rows == n_memories:
            mixed = self.mix(self.split(query), *memory, mask, probe)
        elif not probe.watches(*POINTS):
            side_by_side = self.split(query.reshape(n_memories, -1, query.size(-1)))  # B H KT D
            mixed = self.mix(side_by_side, *memory, mask, probe)
            mixed = mixed.transpose(1, 2).reshape(*query.shape[:2], self.n_heads, self.d_head).transpose(1, 2)
        else:  # whoever watches wants to see each row by itself
            share = n_rows // n_memories
            key, value = (part.repeat_interleave(share, dim=0) for part in memory)
            mask = None if mask is None else Mask(mask.additive.repeat_interleave(share, dim=0))
            mixed = self.mix(self.split(query), key, value, mask, probe)
        return self.output_of(mixed, layout, probe)

    def remember(self, x: Float[Tensor, "*rows E"], layout: Layout) -> KeyValue:
        """Return the keys and values of the encoder's output, the same for every decoding step."""
        key, value = layout.pad(joined(x, self.key, self.value)).chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def split(self, x: Float[Tensor, "B T HD"]) -> Float[Tensor, "B H T D"]:
        """Cut the last dimension into heads."""
        return x.view(*x.shape[:2], x.size(-1) // self.d_head, self.d_head).transpose(1, 2)

    def mix(
        self,
        query: Float[Tensor, "B H T D"],
        key: Float[Tensor, "B G S D"],
        value: Float[Tensor, "B G S D"],
        mask: Mask | None,
        probe: Idle,
    ) -> Float[Tensor, "B H T D"]:
        """Attend in every head: by the kernel, or step by step where someone watches or weights are dropped."""
        query, key, value = probe("query", query), probe("key", key), probe("value", value)
        if self.dropout.active or probe.watches(*UNSEEN_BY_KERNEL):
            mixed, _ = attend(query, key, value, mask, dropout=self.dropout, probe=probe)
        else:
            mixed = attend_fused(query, key, value, mask)
        return probe("mixed", mixed)

    def output_of(self, mixed: Float[Tensor, "B H T D"], layout: Layout, probe: Idle) -> Float[Tensor, "*rows E"]:
        """Concatenate the heads and project."""
        concatenated = probe("concatenated", layout.pack(mixed.transpose(1, 2).flatten(2)))
        return probe("output", self.output(concatenated))


MANY_ROWS = 64
"""From here on, copying weights side by side costs less than multiplying by each alone."""


def joined(x: Float[Tensor, "*rows E"], *linears: nn.Linear) -> Float[Tensor, "*rows out"]:
    """Apply several projections of the same x as one, their results side by side."""
    if x.numel() < MANY_ROWS * x.size(-1):
        return torch.cat([linear(x) for linear in linears], dim=-1)
    weights: list[Tensor] = [linear.weight for linear in linears]
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return F.linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
