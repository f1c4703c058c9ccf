"""The KV cache: keys and values of the tokens so far, and of the encoder's output, computed once.

The cache is passed in and out of a model, never stored on it. One buffer holds all layers and is preallocated in tokens
and rows; a step writes only its own tokens, reordering beams moves only the rows and positions in use, and joining rows
are appended. A cache that was passed in must not be used again: continue with the one returned.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from sightline.errors import InputError
from sightline.model.config import BlockConfig
from sightline.model.masks import Mask, cached_mask

KeyValue = tuple[Float[Tensor, "B G S D"], Float[Tensor, "B G S D"]]

INITIAL_CAPACITY = 32


class KVCache:
    """Keys and values of every layer for R rows, whose lengths may differ; the buffer may have room for more rows."""

    def __init__(self, buffer: Float[Tensor, "L 2 R G C D"]) -> None:
        self.buffer = buffer  # L 2 R+ G C D
        self.lengths = torch.zeros(buffer.size(2), dtype=torch.long, device=buffer.device)  # R
        self.longest = 0
        self.is_uniform = True  # all rows have the same length: slices suffice instead of indices

    @classmethod
    def empty(cls, config: BlockConfig, *, n_layers: int, n_rows: int, capacity: int, like: Tensor) -> "KVCache":
        """Allocate room for `capacity` tokens per row; it grows by doubling.

        Unused room must be zeroed: a masked key of zeros is harmless, a NaN is not (0 · NaN is NaN).
        """
        return cls(
            like.new_zeros(n_layers, 2, n_rows, config.n_kv_heads or config.n_heads, capacity, config.head_width)
        )

    def layers(self) -> list["LayerCache"]:
        """Return each layer's view of the cache."""
        return [LayerCache(self, index) for index in range(self.buffer.size(0))]

    def positions(self, n_new: int) -> Int[Tensor, "..."]:
        """Return the positions of the next tokens: T if all rows have the same length, else R T."""
        new = torch.arange(n_new, device=self.lengths.device)
        return new + self.longest if self.is_uniform else self.lengths[:, None] + new

    def mask(self, n_new: int, dtype: torch.dtype) -> Mask | None:
        """Return which keys the next tokens may attend to; None if all."""
        if self.is_uniform and n_new == 1:
            return None
        if self.is_uniform and self.longest == 0:
            return Mask.causal(n_new, dtype=dtype, device=self.lengths.device)
        return Mask.of(cached_mask(self.lengths, n_new, self.longest + n_new), dtype=dtype)

    def reserve_for(self, inputs: Shaped[Tensor, "R T *rest"], lengths: Int[Tensor, "R"] | None = None) -> "KVCache":
        """Reserve room for these tokens; raise if their rows or lengths do not fit this cache."""
        n_rows, n_new = inputs.shape[:2]
        if n_rows != self.lengths.numel():
            raise InputError(f"{n_rows} rows of input cannot continue the {self.lengths.numel()} rows of this cache")
        if lengths is not None and not (
            lengths.shape == (n_rows,) and bool(((lengths >= 0) & (lengths <= n_new)).all())
        ):
            raise InputError(f"lengths must be {n_rows} numbers between 0 and {n_new}, the width of the batch")
        return self.reserve(n_new)

    def reserve(self, n_new: int) -> "KVCache":
        """Grow the buffer if it has no room for `n_new` more tokens per row."""
        capacity = self.buffer.size(4)
        if self.longest + n_new > capacity:
            before = self.buffer[..., : self.longest, :]
            self.buffer = self._allocate(self.buffer.size(2), max(2 * capacity, self.longest + n_new))
            self.buffer[..., : self.longest, :] = before
        return self

    def advance(self, n_new: int, lengths: Int[Tensor, "R"] | None = None) -> None:
        """Count the tokens that every layer has just stored; `lengths` if rows were padded to `n_new`."""
        self.lengths = self.lengths + (n_new if lengths is None else lengths)
        self.is_uniform = bool((self.lengths == self.lengths[0]).all()) if lengths is not None else self.is_uniform
        self.longest = self.longest + n_new if lengths is None else int(self.lengths.max())

    def reorder(self, rows: Int[Tensor, "R2"]) -> "KVCache":
        """Make row i what row `rows[i]` was; rows that stay in place, and unused room, are not copied."""
        used = self.buffer[..., : self.longest, :]
        if rows.numel() > self.buffer.size(2):
            self.buffer = self._allocate(rows.numel(), self.buffer.size(4))
            self.buffer[..., : self.longest, :] = used.index_select(2, rows)
        else:
            moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
            if moved.numel():
                used.index_copy_(2, moved, used.index_select(2, rows[moved]))
        self.lengths = self.lengths[rows]
        if not self.is_uniform and rows.numel():
            self.longest = int(self.lengths.max())
            self.is_uniform = bool((self.lengths == self.longest).all())
        return self

    def join(self, other: "KVCache") -> "KVCache":
        """Append the rows of another cache; room for rows grows by doubling."""
        n_own, n_new = self.lengths.numel(), other.lengths.numel()
        n_rows, n_tokens = self.buffer.size(2), self.buffer.size(4)
        if n_own + n_new > n_rows or other.longest > n_tokens:
            before = self.buffer[:, :, :n_own, :, : self.longest]
            self.buffer = self._allocate(
                max(2 * n_rows, n_own + n_new) if n_own + n_new > n_rows else n_rows, max(n_tokens, other.longest)
            )
            self.buffer[:, :, :n_own, :, : self.longest] = before
        self.buffer[:, :, n_own : n_own + n_new, :, : other.longest] = other.buffer[:, :, :n_new, :, : other.longest]
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.longest = max(self.longest, other.longest)
        self.is_uniform = bool((self.lengths == self.longest).all())
        return self

    def _allocate(self, n_rows: int, n_tokens: int) -> Float[Tensor, "L 2 R G C D"]:
        """Return a zeroed buffer for this many rows and tokens."""
        n_layers, two, _, n_heads, _, d_head = self.buffer.shape
        return self.buffer.new_zeros(n_layers, two, n_rows, n_heads, n_tokens, d_head)


@dataclass(frozen=True)
class LayerCache:
    """One layer's view of a cache."""

    cache: KVCache
    index: int

    def extend(self, key: Float[Tensor, "R G T D"], value: Float[Tensor, "R G T D"]) -> KeyValue:
        """Store the new tokens' keys and values and return those of all tokens so far."""
        cache, n_new = self.cache, key.size(2)
        key, value = key.detach(), value.detach()  # no gradients through a cache: the graph would grow with every step
        stored = cache.buffer[self.index, :, : key.size(0)]  # 2 R G C D
        if cache.is_uniform:
            end = cache.longest + n_new
            stored[0, :, :, cache.longest : end] = key
            stored[1, :, :, cache.longest : end] = value
        else:
            end = cache.longest + n_new
            rows = torch.arange(key.size(0), device=key.device)[:, None]
            positions = cache.positions(n_new)  # R T
            stored[0][rows, :, positions] = key.transpose(1, 2)
            stored[1][rows, :, positions] = value.transpose(1, 2)
        return stored[0, :, :, :end], stored[1, :, :, :end]


class DecoderState:
    """Everything decoding carries from one token to the next.

    `cross_kv` (the encoder's keys and values) is stored once per sentence and shared by its beams, as long as the rows
    of each sentence are adjacent and equally many: `rows_per_source`. If sentences that joined later have another
    number of rows, every row gets its own copy, until all have equally many again.
    """

    def __init__(self, cache: KVCache, cross_kv: list[KeyValue], cross_mask: Mask | None) -> None:
        self.cache, self.cross_kv, self.cross_mask = cache, cross_kv, cross_mask
        self.sentences = torch.arange(self.n_sources, device=cache.lengths.device)  # M: the sentence of each source

    @property
    def n_sources(self) -> int:
        """Number of sources in `cross_kv`."""
        return self.cross_kv[0][0].size(0)

    @property
    def rows_per_source(self) -> int:
        """Number of rows that attend to one source."""
        return self.cache.lengths.numel() // max(1, self.n_sources)

    @property
    def source_width(self) -> int:
        """Tokens that a source has room for."""
        return self.cross_kv[0][0].size(2)

    def reorder(self, rows: Int[Tensor, "R2"]) -> "DecoderState":
        """Make row i what row `rows[i]` was."""
        wanted = rows // self.rows_per_source  # the source of each new row
        self.cache = self.cache.reorder(rows)
        self._select_sources(group_leaders(wanted, self.sentences))
        return self

    def join(self, other: "DecoderState") -> "DecoderState":
        """Append the rows of another state."""
        if self.rows_per_source != other.rows_per_source:
            self._stop_sharing()
            other._stop_sharing()
        if self.cross_mask is not None or other.cross_mask is not None or self.source_width != other.source_width:
            width = max(self.source_width, other.source_width)
            self.cross_mask = Mask(
                torch.cat([pad_last(s.additive_cross_mask(), width, -math.inf) for s in (self, other)])
            )
        self.cross_kv = [
            (join_rows(key, other_key), join_rows(value, other_value))
            for (key, value), (other_key, other_value) in zip(self.cross_kv, other.cross_kv, strict=True)
        ]
        self.cache = self.cache.join(other.cache)
        self.sentences = torch.cat([self.sentences, other.sentences + int(self.sentences.max()) + 1])
        return self

    def additive_cross_mask(self) -> Float[Tensor, "M 1 1 S"]:
        """Return the mask that hides the padding of each source; zeros if nothing is padded."""
        if self.cross_mask is None:
            return self.cross_kv[0][0].new_zeros(self.n_sources, 1, 1, self.source_width)
        return self.cross_mask.additive

    def _stop_sharing(self) -> None:
        """Give every row its own copy of its source."""
        rows = torch.arange(self.cache.lengths.numel(), device=self.sentences.device)
        self._select_sources(rows // self.rows_per_source)

    def _select_sources(self, sources: Int[Tensor, "M"]) -> None:
        """Keep these sources, in this order."""
        unchanged = torch.arange(self.n_sources, device=sources.device)
        if sources.numel() == self.n_sources and bool((sources == unchanged).all()):
            return
        self.cross_kv = [(key.index_select(0, sources), value.index_select(0, sources)) for key, value in self.cross_kv]
        if self.cross_mask is not None:
            self.cross_mask = Mask(self.cross_mask.additive.index_select(0, sources))
        self.sentences = self.sentences[sources]


def pad_last(x: Float[Tensor, "... S"], width: int, value: float) -> Float[Tensor, "... S2"]:
    """Pad the last dimension of x to `width`."""
    return F.pad(x, (0, width - x.size(-1)), value=value)


def join_rows(x: Float[Tensor, "B G S D"], y: Float[Tensor, "B2 G S2 D"]) -> Float[Tensor, "B3 G S3 D"]:
    """Return the rows of x and y, zero-padded to the wider of the two (see `KVCache.empty`)."""
    joined = x.new_zeros(x.size(0) + y.size(0), x.size(1), max(x.size(2), y.size(2)), x.size(3))
    joined[: x.size(0), :, : x.size(2)] = x
    joined[x.size(0) :, :, : y.size(2)] = y
    return joined


def group_leaders(wanted: Int[Tensor, "R"], sentences: Int[Tensor, "M"]) -> Int[Tensor, "M2"]:
    """Return one source per group of rows that can share it: per sentence, if all groups are equally large."""
    _, sizes = torch.unique_consecutive(sentences[wanted], return_counts=True)
    if not sizes.numel() or not bool((sizes == sizes[0]).all()):
        return wanted  # groups of unequal size: every row gets its own copy
    return wanted[:: int(sizes[0])]


def select_last(hidden: Float[Tensor, "R T E"], lengths: Int[Tensor, "R"] | None) -> Float[Tensor, "R E"]:
    """Return the last real token of each row; undefined for a row without any."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(hidden.size(0), device=hidden.device), lengths - 1]
