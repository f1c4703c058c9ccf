"""What decoding need not compute again: keys and values of the tokens so far, and of the encoder's output.

The cache is handed in and out of a model, never kept on it. One buffer holds all layers and is allocated ahead, in
tokens and in rows; a step writes only its own token, beams that change places move only the rows and positions in use,
and rows that join are written behind those there are. A cache that has been handed in is used up: go on with the one
handed out.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sightline.errors import InputError
from sightline.model.config import BlockConfig
from sightline.model.masks import Mask, cached_mask

KeyValue = tuple[Float[Tensor, "B G S D"], Float[Tensor, "B G S D"]]

FIRST_CAPACITY = 32


class Cache:
    """Keys and values of every layer for R rows, whose lengths may differ; the buffer may have room for more."""

    def __init__(self, buffer: Float[Tensor, "L 2 R G C D"]) -> None:
        self.buffer = buffer  # L 2 R+ G C D
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
        capacity = self.buffer.size(4)
        if self.longest + n_new > capacity:
            before = self.buffer[..., : self.longest, :]
            self.buffer = self._roomier(self.buffer.size(2), max(2 * capacity, self.longest + n_new))
            self.buffer[..., : self.longest, :] = before
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
            self.buffer = self._roomier(rows.numel(), self.buffer.size(4))
            self.buffer[..., : self.longest, :] = used.index_select(2, rows)
        else:
            moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
            if moved.numel():
                used.index_copy_(2, moved, used.index_select(2, rows[moved]))
        self.lengths = self.lengths[rows]
        if not self.is_even and rows.numel():
            self.longest = int(self.lengths.max())
            self.is_even = bool((self.lengths == self.longest).all())
        return self

    def join(self, other: "Cache") -> "Cache":
        """Take in the rows of another cache, behind one's own; room for rows doubles when it is not enough."""
        n_own, n_new = self.lengths.numel(), other.lengths.numel()
        n_rows, n_tokens = self.buffer.size(2), self.buffer.size(4)
        if n_own + n_new > n_rows or other.longest > n_tokens:
            before = self.buffer[:, :, :n_own, :, : self.longest]
            self.buffer = self._roomier(
                max(2 * n_rows, n_own + n_new) if n_own + n_new > n_rows else n_rows, max(n_tokens, other.longest)
            )
            self.buffer[:, :, :n_own, :, : self.longest] = before
        self.buffer[:, :, n_own : n_own + n_new, :, : other.longest] = other.buffer[:, :, :n_new, :, : other.longest]
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.longest = max(self.longest, other.longest)
        self.is_even = bool((self.lengths == self.longest).all())
        return self

    def _roomier(self, n_rows: int, n_tokens: int) -> Float[Tensor, "L 2 R G C D"]:
        """Return an empty buffer of this kind."""
        n_layers, two, _, n_heads, _, d_head = self.buffer.shape
        return self.buffer.new_zeros(n_layers, two, n_rows, n_heads, n_tokens, d_head)


@dataclass(frozen=True)
class LayerCache:
    """One layer's view of a cache."""

    cache: Cache
    index: int

    def extend(self, key: Float[Tensor, "R G T D"], value: Float[Tensor, "R G T D"]) -> KeyValue:
        """Store the new tokens' keys and values and return those of all tokens so far."""
        cache, n_new = self.cache, key.size(2)
        key, value = key.detach(), value.detach()  # nothing is learned through a cache: it would remember every step
        stored = cache.buffer[self.index, :, : key.size(0)]  # 2 R G C D
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
    grouped by sentence: `share` rows in a row belong to one memory. Sentences that joined later may stand in groups of
    another size: then every row has a memory for itself, until groups are equal again.
    """

    def __init__(self, cache: Cache, memory: list[KeyValue], mask: Mask | None) -> None:
        self.cache, self.memory, self.mask = cache, memory, mask
        self.sentences = torch.arange(self.n_memories, device=cache.lengths.device)  # M: whose memory each is

    @property
    def n_memories(self) -> int:
        """Number of sentences remembered."""
        return self.memory[0][0].size(0)

    def reorder(self, rows: Int[Tensor, "R2"]) -> "DecoderState":
        """Let row i become what row rows[i] was."""
        wanted = rows // self.share  # the memory each new row needs
        self.cache = self.cache.reorder(rows)
        self._remember(leaders_of(wanted, self.sentences))
        return self

    @property
    def share(self) -> int:
        """How many rows look at one memory."""
        return self.cache.lengths.numel() // max(1, self.n_memories)

    def join(self, other: "DecoderState") -> "DecoderState":
        """Take in the rows of another state, behind one's own."""
        if self.share != other.share:
            self._stop_sharing()
            other._stop_sharing()
        if self.mask is not None or other.mask is not None or self.width != other.width:
            masks = [widened(state.padding(), max(self.width, other.width), -math.inf) for state in (self, other)]
            self.mask = Mask(torch.cat(masks))
        self.memory = [
            (joined_rows(key, other_key), joined_rows(value, other_value))
            for (key, value), (other_key, other_value) in zip(self.memory, other.memory, strict=True)
        ]
        self.cache = self.cache.join(other.cache)
        self.sentences = torch.cat([self.sentences, other.sentences + int(self.sentences.max()) + 1])
        return self

    @property
    def width(self) -> int:
        """Tokens that a memory has room for."""
        return self.memory[0][0].size(2)

    def padding(self) -> Float[Tensor, "M 1 1 S"]:
        """Return what hides the room in each memory that its sentence does not need."""
        if self.mask is None:
            return self.memory[0][0].new_zeros(self.n_memories, 1, 1, self.width)
        return self.mask.additive

    def _stop_sharing(self) -> None:
        """Give every row a memory of its own."""
        self._remember(torch.arange(self.cache.lengths.numel(), device=self.sentences.device) // self.share)

    def _remember(self, memories: Int[Tensor, "M"]) -> None:
        """Keep these memories, in this order."""
        everyone = torch.arange(self.n_memories, device=memories.device)
        if memories.numel() == self.n_memories and bool((memories == everyone).all()):
            return
        self.memory = [(key.index_select(0, memories), value.index_select(0, memories)) for key, value in self.memory]
        self.mask = None if self.mask is None else Mask(self.mask.additive.index_select(0, memories))
        self.sentences = self.sentences[memories]


def widened(x: Float[Tensor, "... S"], width: int, value: float) -> Float[Tensor, "... S2"]:
    """Return x with its last dimension filled up."""
    return F.pad(x, (0, width - x.size(-1)), value=value)


def joined_rows(x: Float[Tensor, "B G S D"], y: Float[Tensor, "B2 G S2 D"]) -> Float[Tensor, "B3 G S3 D"]:
    """Return the rows of x and y, as wide as the wider of them; room is cleared (see `Cache.empty`)."""
    joined = x.new_zeros(x.size(0) + y.size(0), x.size(1), max(x.size(2), y.size(2)), x.size(3))
    joined[: x.size(0), :, : x.size(2)] = x
    joined[x.size(0) :, :, : y.size(2)] = y
    return joined


def leaders_of(wanted: Int[Tensor, "R"], sentences: Int[Tensor, "M"]) -> Int[Tensor, "M2"]:
    """Return one memory for each group of rows that can share it: all of one sentence, if groups are of one size."""
    _, sizes = torch.unique_consecutive(sentences[wanted], return_counts=True)
    if not sizes.numel() or not bool((sizes == sizes[0]).all()):
        return wanted  # groups of unequal size: every row gets a memory of its own
    return wanted[:: int(sizes[0])]


def last_of(hidden: Float[Tensor, "R T E"], lengths: Int[Tensor, "R"] | None) -> Float[Tensor, "R E"]:
    """Return each row's last real token; what a row without any gets means nothing."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(hidden.size(0), device=hidden.device), lengths - 1]
