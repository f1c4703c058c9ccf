"""Packing: run a batch of sentences of different lengths without computing its padding.

All operations but attention treat each token separately, so they can leave out the padding of a batch: the B × T grid
becomes a list of the N real tokens. Attention pads it back to the grid. A `Layout` knows both forms; in its padded form
`pack` and `pad` do nothing, so layers are written once for both.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from sightline.errors import InputError
from sightline.runtime import current_products


@dataclass(frozen=True)
class Layout:
    """The positions of the real tokens in a right-padded batch."""

    lengths: Int[Tensor, "B"]
    longest: int
    packed: bool = False
    """Whether the tokens form a list of N instead of a grid of B × T."""
    pack_indices: Int[Tensor, "N"] | None = None
    """Indices of the packed tokens in the flattened grid; None if they fill it.

    The last ones may repeat the first token (`Products.round_rows`): rows that nothing reads and no gradient reaches.
    """
    n_tokens: int = 0
    """Packed tokens without such repetitions, where there are `pack_indices`."""
    pad_indices: Int[Tensor, "B T"] | None = None
    """The inverse: the index of the token at each place of the grid, an arbitrary token for padding."""

    @classmethod
    def of(
        cls, batch: Shaped[Tensor, "B T *rest"], lengths: Int[Tensor, "B"] | None = None, *, packed: bool = False
    ) -> "Layout":
        """Build the layout of a batch of ids or vectors; without lengths every token is real."""
        n_rows, longest = batch.shape[:2]
        if lengths is not None and lengths.shape != (n_rows,):
            raise InputError(f"lengths are for {lengths.numel()} sentences, the batch has {n_rows}")
        if lengths is None:
            return cls(torch.full((n_rows,), longest, device=batch.device), longest, packed)
        if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= longest:
            raise InputError(f"lengths must lie between 0 and {longest}, the width of the batch")
        if not packed or int(lengths.sum()) == n_rows * longest:
            return cls(lengths, longest, packed)
        real = (torch.arange(longest, device=batch.device) < lengths[:, None]).flatten()  # BT
        pad_indices = (real.cumsum(0) - 1).clamp(min=0).view(n_rows, longest)
        pack_indices = real.nonzero().squeeze(1)
        n_tokens, products = pack_indices.numel(), current_products()
        if products is not None and n_tokens and (surplus := products.round_rows(n_tokens) - n_tokens):
            pack_indices = torch.cat([pack_indices, pack_indices[:1].expand(surplus)])
        return cls(lengths, longest, packed, pack_indices, n_tokens, pad_indices)

    @property
    def has_padding(self) -> bool:
        """Whether some sentence is shorter than the batch."""
        return bool((self.lengths < self.longest).any())

    def pack(self, grid: Shaped[Tensor, "B T *rest"]) -> Shaped[Tensor, "..."]:
        """Remove the padding: B T … → N …."""
        if not self.packed:
            return grid
        if self.pack_indices is None:
            return grid.flatten(0, 1)
        packed: Tensor = _Pack.apply(grid, self.pack_indices, self.n_tokens)  # type: ignore[no-untyped-call]
        return packed

    def trim(self, rows: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Leave out the rows that repeat a token: N … as the caller counts them."""
        surplus = self.pack_indices is not None and self.packed and self.n_tokens < rows.size(0)
        return rows[: self.n_tokens] if surplus else rows

    def pad(self, rows: Shaped[Tensor, "..."]) -> Shaped[Tensor, "B T *rest"]:
        """Restore the grid: N … → B T ….

        Padding gets copies of some token: it is masked in attention, and zeroing it would cost another pass.
        """
        if not self.packed:
            return rows
        if self.pack_indices is None or self.pad_indices is None:
            return rows.view(self.lengths.size(0), self.longest, *rows.shape[1:])
        grid: Tensor = _Pad.apply(rows, self.pack_indices, self.n_tokens, self.pad_indices)  # type: ignore[no-untyped-call]
        return grid

    def positions(self) -> Int[Tensor, "..."]:
        """Return the position of each token in its sentence: T for a grid (the same in every row), N for a list."""
        columns = torch.arange(self.longest, device=self.lengths.device)
        if not self.packed:
            return columns
        return columns.repeat(self.lengths.size(0)) if self.pack_indices is None else self.pack_indices % self.longest


def gather(grid: Tensor, pack_indices: Tensor) -> Tensor:
    """Select the tokens at these indices of the grid: B T … → N …."""
    return grid.flatten(0, 1).index_select(0, pack_indices)


class _Pack(torch.autograd.Function):
    """Gather with a gradient that is zero at the padding. torch's own would accumulate where a copy suffices."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor, pack_indices: Tensor, n_tokens: int) -> Tensor:
        ctx.save_for_backward(pack_indices)
        ctx.grid, ctx.n_tokens = grid.shape[:2], n_tokens
        return gather(grid, pack_indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (pack_indices,) = ctx.saved_tensors
        n_rows, longest = ctx.grid
        n_tokens, gradient = ctx.n_tokens, gradients[0]
        grid = gradient.new_zeros(n_rows * longest, *gradient.shape[1:])
        grid.index_copy_(0, pack_indices[:n_tokens], gradient[:n_tokens])
        return grid.view(n_rows, longest, *grid.shape[1:]), None, None


class _Pad(torch.autograd.Function):
    """Scatter back to the grid; the copies that fill the padding pass no gradient, and repeated rows get none."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, pack_indices: Tensor, n_tokens: int, pad_indices: Tensor) -> Tensor:
        ctx.save_for_backward(pack_indices)
        ctx.n_tokens = n_tokens
        if rows.size(0) == 0:  # a batch of empty sentences has nothing to copy
            return rows.new_zeros(*pad_indices.shape, *rows.shape[1:])
        return rows.index_select(0, pad_indices.flatten()).view(*pad_indices.shape, *rows.shape[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (pack_indices,) = ctx.saved_tensors
        rows = gather(gradients[0], pack_indices)
        rows[ctx.n_tokens :] = 0
        return rows, None, None, None
