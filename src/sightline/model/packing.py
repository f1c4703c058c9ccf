"""Run a batch of sentences of different lengths without paying for its padding.

Everything but attention treats each token by itself, so there the padding of a batch can be left out: the B × T grid
becomes a list of the N real tokens. Attention needs the grid back for a moment. A `Layout` knows both forms; in its
padded form `pack` and `pad` do nothing, so layers are written once and run either way.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from sightline.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Where the real tokens of a right-padded batch stand."""

    lengths: Int[Tensor, "B"]
    longest: int
    packed: bool = False
    """Whether the tokens stand in a list of N, or in a grid of B × T."""
    places: Int[Tensor, "N"] | None = None
    """Places of a packed batch's tokens in the flattened grid; None where they fill it."""
    filling: Int[Tensor, "B T"] | None = None
    """The reverse: which token stands at each place of the grid, any token standing in for padding."""

    @classmethod
    def of(cls, ids: Int[Tensor, "B T"], lengths: Int[Tensor, "B"] | None = None, *, packed: bool = False) -> "Layout":
        """Describe a batch of ids; without lengths every token is real."""
        n_rows, longest = ids.shape
        if lengths is not None and lengths.shape != (n_rows,):
            raise InputError(f"lengths are for {lengths.numel()} sentences, ids for {n_rows}")
        if lengths is None:
            return cls(torch.full((n_rows,), longest, device=ids.device), longest, packed)
        if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= longest:
            raise InputError(f"lengths must lie between 0 and {longest}, the width of the batch")
        if not packed or int(lengths.sum()) == n_rows * longest:
            return cls(lengths, longest, packed)
        real = (torch.arange(longest, device=ids.device) < lengths[:, None]).flatten()  # BT
        filling = (real.cumsum(0) - 1).clamp(min=0).view(n_rows, longest)
        return cls(lengths, longest, packed, real.nonzero().squeeze(1), filling)

    @property
    def has_padding(self) -> bool:
        """Whether some sentence is shorter than the batch."""
        return bool((self.lengths < self.longest).any())

    def pack(self, grid: Shaped[Tensor, "B T *rest"]) -> Shaped[Tensor, "..."]:
        """Leave the padding out: B T … → N …."""
        if not self.packed:
            return grid
        if self.places is None:
            return grid.flatten(0, 1)
        packed: Tensor = _Pack.apply(grid, self.places)  # type: ignore[no-untyped-call]
        return packed

    def pad(self, rows: Shaped[Tensor, "..."]) -> Shaped[Tensor, "B T *rest"]:
        """Put the tokens back into the grid: N … → B T ….

        Padding gets copies of some token: attention never looks at it, and filling it with zeros would cost a pass.
        """
        if not self.packed:
            return rows
        if self.places is None or self.filling is None:
            return rows.view(self.lengths.size(0), self.longest, *rows.shape[1:])
        grid: Tensor = _Pad.apply(rows, self.places, self.filling)  # type: ignore[no-untyped-call]
        return grid

    def positions(self) -> Int[Tensor, "..."]:
        """Return the position of each token in its sentence: T for a grid (every row alike), N for a list."""
        columns = torch.arange(self.longest, device=self.lengths.device)
        if not self.packed:
            return columns
        return columns.repeat(self.lengths.size(0)) if self.places is None else self.places % self.longest


def gather(grid: Tensor, places: Tensor) -> Tensor:
    """B T … → N …."""
    return grid.flatten(0, 1).index_select(0, places)


class _Pack(torch.autograd.Function):
    """Gather; its gradient is zero at the padding. torch's own gradient would add where copying is enough."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.grid = grid.shape[:2]
        return gather(grid, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        n_rows, longest = ctx.grid
        grid = gradients[0].new_zeros(n_rows * longest, *gradients[0].shape[1:])
        return grid.index_copy_(0, places, gradients[0]).view(n_rows, longest, *grid.shape[1:]), None


class _Pad(torch.autograd.Function):
    """The other way; what stands in for padding passes no gradient back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, filling: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        if rows.size(0) == 0:  # a batch of empty sentences: there is nothing to copy from
            return rows.new_zeros(*filling.shape, *rows.shape[1:])
        return rows.index_select(0, filling.flatten()).view(*filling.shape, *rows.shape[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gather(gradients[0], places), None, None
