"""What decoding need not compute again: keys and values of the tokens so far, and of the encoder's output.

The cache is handed in and out of a model, never kept on it. One buffer holds all layers and is allocated ahead;
a step writes only its own token, and beams that change places move only the rows and positions in use. A cache that
has been handed in is used up: go on with the one handed out.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.errors import InputError
from sightline.model.config import BlockConfig
from sightline.model.masks import Mask, cached_mask

KeyValue = tuple[Float[Tensor, "B G S D"], Float[Tensor, "B G S D"]]

FIRST_CAPACITY = 32


class Cache:
    """Keys and values of every layer for R rows, whose lengths may differ."""

    def __init__(self, buffer: Float[Tensor, "L 2 R G C D"]) -> None:
        self.buffer = buffer
        self.lengths = torch.zeros(buffer.size(2), dtype=torch.long, device=buffer.device)  # R
        self.longest = 0
        self.is_even = True  # all rows are of one length, so that slices serve instead of indices

    @classmethod
    def empty(cls, config: BlockConfig, *, n_layers: int, n_rows: int, capacity: int, like: Tensor) -> "Cache":
        """Allocate for `capacity` tokens a row; it grows by doubling when that is not enough.

        Room must be cleared: a masked key of zeros is harmless, one that happens to be NaN is not (0 · NaN is NaN).
        """
        return cls(like.new_zeros(n_layers, 2, n_rows, config.n_kv_heads or config.n_heads, capacity, config.d_head))

    def layers(self) -> list["LayerCache"]:
        """Return the part of each layer."""
        return [LayerCache(self, index) for index in range(self.buffer.size(0))]

    def positions(self, n_new: int) -> Int[Tensor, "..."]:
        """Return where the next tokens stand: T when the rows are even, else R T."""
        new = torch.arange(n_new, device=self.lengths.device)
        return new + self.longest if self.is_even else self.lengths[:, None] + new

    def mask(self, n_new: int, dtype: torch.dtype) -> Mask | None:
        """Return who the next tokens may look at; None when that is everyone."""
        if self.is_even and n_new == 1:
            return None
        if self.is_even and self.longest == 0:
            return Mask.look_ahead(n_new, dtype=dtype, device=self.lengths.device)
        return Mask.of(cached_mask(self.lengths, n_new, self.longest + n_new), dtype=dtype)

    def make_room(self, ids: Int[Tensor, "R T"], lengths: Int[Tensor, "R"] | None = None) -> "Cache":
        """Make room for more tokens, refusing those that do not belong to these rows."""
        n_rows, n_new = ids.shape
        if n_rows != self.lengths.numel():
            raise InputError(f"{n_rows} rows of ids cannot continue the {self.lengths.numel()} rows of this cache")
        if lengths is not None and not (
            lengths.shape == (n_rows,) and bool(((lengths >= 0) & (lengths <= n_new)).all())
        ):
            raise InputError(f"lengths must be {n_rows} numbers between 0 and {n_new}, the width of the batch")
        return self.reserve(n_new)

    def reserve(self, n_new: int) -> "Cache":
        """Grow if there is no room for so many more tokens."""
        *shape, capacity, d_head = self.buffer.shape
        if self.longest + n_new > capacity:
            grown = self.buffer.new_zeros(*shape, max(2 * capacity, self.longest + n_new), d_head)
            grown[..., : self.longest, :] = self.buffer[..., : self.longest, :]
            self.buffer = grown
        return self

    def advance(self, n_new: int, lengths: Int[Tensor, "R"] | None = None) -> None:
        """Count the tokens every layer has just stored; `lengths` where rows were padded to n_new."""
        self.lengths = self.lengths + (n_new if lengths is None else lengths)
        self.is_even = bool((self.lengths == self.lengths[0]).all()) if lengths is not None else self.is_even
        self.longest = self.longest + n_new if lengths is None else int(self.lengths.max())

    def reorder(self, rows: Int[Tensor, "R2"]) -> "Cache":
        """Let row i become what row rows[i] was; rows that stay where they are, and room not in use, are not copied."""
        used = self.buffer[..., : self.longest, :]
        if rows.numel() > self.buffer.size(2):
            grown = self.buffer.new_zeros(*self.buffer.shape[:2], rows.numel(), *self.buffer.shape[3:])
            grown[..., : self.longest, :] = used.index_select(2, rows)
            self.buffer = grown
        else:
            moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
            if moved.numel():
                used.index_copy_(2, moved, used.index_select(2, rows[moved]))
            self.buffer = self.buffer[:, :, : rows.numel()]
        self.lengths = self.lengths[rows]
        if not self.is_even and rows.numel():
            self.longest = int(self.lengths.max())
            self.is_even = bool((self.lengths == self.longest).all())
        return self


@dataclass(frozen=True)
class LayerCache:
    """One layer's view of a cache."""

    cache: Cache
    index: int

    def extend(self, key: Float[Tensor, "R G T D"], value: Float[Tensor, "R G T D"]) -> KeyValue:
        """Store the new tokens' keys and values and return those of all tokens so far."""
        cache, n_new = self.cache, key.size(2)
        key, value = key.detach(), value.detach()  # nothing is learned through a cache: it would remember every step
        stored = cache.buffer[self.index]  # 2 R G C D
        if cache.is_even:
            end = cache.longest + n_new
            stored[0, :, :, cache.longest : end] = key
            stored[1, :, :, cache.longest : end] = value
        else:
            end = cache.longest + n_new
            rows = torch.arange(key.size(0), device=key.device)[:, None]
            places = cache.positions(n_new)  # R T
            stored[0][rows, :, places] = key.transpose(1, 2)
            stored[1][rows, :, places] = value.transpose(1, 2)
        return stored[0, :, :, :end], stored[1, :, :, :end]


class DecoderState:
    """All that decoding carries from one token to the next.

    The memory (the encoder's keys and values) is kept once a sentence and shared by its beams, as long as rows stay
    grouped by sentence: `share` rows in a row belong to one memory.
    """

    def __init__(self, cache: Cache, memory: list[KeyValue], mask: Mask | None) -> None:
        self.cache, self.memory, self.mask = cache, memory, mask

    @property
    def n_memories(self) -> int:
        """Number of sentences remembered."""
        return self.memory[0][0].size(0)

    def reorder(self, rows: Int[Tensor, "R2"]) -> "DecoderState":
        """Let row i become what row rows[i] was."""
        share = self.cache.lengths.numel() // max(1, self.n_memories)
        wanted = rows // share  # the memory each new row needs
        self.cache = self.cache.reorder(rows)
        leaders, in_order = grouped(wanted, self.n_memories)
        if not in_order:
            self.memory = [(key.index_select(0, leaders), value.index_select(0, leaders)) for key, value in self.memory]
            self.mask = None if self.mask is None else Mask(self.mask.additive.index_select(0, leaders))
        return self


def grouped(wanted: Int[Tensor, "R"], n_memories: int) -> tuple[Int[Tensor, "M"], bool]:
    """Return one memory for each group of rows that can share it, and whether that is just what is there already."""
    leaders, sizes = torch.unique_consecutive(wanted, return_counts=True)
    if sizes.numel() and not bool((sizes == sizes[0]).all()):
        leaders = wanted  # groups of unequal size: every row gets a memory of its own
    everyone = torch.arange(n_memories, device=wanted.device)
    return leaders, leaders.numel() == n_memories and bool((leaders == everyone).all())


def last_of(hidden: Float[Tensor, "R T E"], lengths: Int[Tensor, "R"] | None) -> Float[Tensor, "R E"]:
    """Return each row's last real token; what a row without any gets means nothing."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(hidden.size(0), device=hidden.device), lengths - 1]
