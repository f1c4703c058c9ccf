"""Position encodings: the paper's sinusoids, and rotary positions (RoPE)."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

WAVELENGTH_BASE = 10_000.0

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of the angles of positions, broadcastable to B H T D."""


def frequencies(width: int, base: float = WAVELENGTH_BASE) -> Float[Tensor, "half"]:
    """Return base^(−2i / width) for i = 0 … width/2 − 1, from fastest to slowest."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


def angle_table(length: int, width: int, base: float) -> Float[Tensor, "length half"]:
    """Return position × frequency, in double precision to keep large positions exact."""
    with torch.inference_mode(mode=False):  # the cached table must stay usable in training
        return torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * frequencies(width, base)


@lru_cache(maxsize=8)
def sinusoid_table(length: int, d_model: int, *, halves: bool = False) -> Float[Tensor, "length E"]:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same) (3.5); or all sines, then all cosines."""
    with torch.inference_mode(mode=False):
        angles = angle_table(length, d_model, WAVELENGTH_BASE)
        pair = (angles.sin(), angles.cos())
        return (torch.cat(pair, dim=-1) if halves else torch.stack(pair, dim=-1).flatten(1)).float()


@lru_cache(maxsize=8)
def rotation_table(length: int, d_head: int, base: float) -> Rotation:
    """Return the cosines and sines of every position's rotation."""
    with torch.inference_mode(mode=False):
        angles = angle_table(length, d_head, base)
        return angles.cos().float(), angles.sin().float()


def round_up(length: int) -> int:
    """Round a length up to a power of two, so that few tables are ever computed."""
    return 1 << max(6, (length - 1).bit_length())


def rotate(x: Float[Tensor, "B H T D"], rotation: Rotation) -> Float[Tensor, "B H T D"]:
    """Rotate each pair (x_i, x_{i + D/2}) by its position's angle, so that q·k depends on distance (Su et al. 2021)."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


def rotation_at(positions: Int[Tensor, "*BT"], longest: int, *, d_head: int, base: float) -> Rotation:
    """Return the rotation of these positions (T, or B T), all below `longest`."""
    cosine, sine = (t.to(positions.device)[positions] for t in rotation_table(round_up(longest), d_head, base))
    return (cosine, sine) if positions.ndim == 1 else (cosine[:, None], sine[:, None])
