"""Position encodings: the paper's sinusoids, and rotary positions (RoPE), scaled for longer texts."""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.model.config import Rope, RopeScaling

WAVELENGTH_BASE = 10_000.0

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of the angles of positions, broadcastable to B H T D."""


def frequencies(width: int, base: float = WAVELENGTH_BASE) -> Float[Tensor, "half"]:
    """Return base^(−2i / width) for i = 0 … width/2 − 1, from fastest to slowest."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


def angle_table(length: int, by: Float[Tensor, "half"]) -> Float[Tensor, "length half"]:
    """Return position × frequency, in double precision to keep large positions exact."""
    return torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * by


@lru_cache(maxsize=8)
def sinusoid_table(length: int, d_model: int, *, halves: bool = False) -> Float[Tensor, "length E"]:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same) (3.5); or all sines, then all cosines."""
    with torch.inference_mode(mode=False):  # the cached table must stay usable in training
        angles = angle_table(length, frequencies(d_model))
        pair = (angles.sin(), angles.cos())
        return (torch.cat(pair, dim=-1) if halves else torch.stack(pair, dim=-1).flatten(1)).float()


def interpolate_all(unscaled: Float[Tensor, "half"], rope: Rope) -> Float[Tensor, "half"]:
    """Divide every frequency by the factor: position interpolation (Chen et al. 2023)."""
    return unscaled / rope.factor


def interpolate_llama3(unscaled: Float[Tensor, "half"], rope: Rope) -> Float[Tensor, "half"]:
    """Divide the low frequencies, keep the high ones, and blend between them by their number of turns (Llama 3.1)."""
    n_turns = original_length(rope) * unscaled / (2 * math.pi)  # in a text of the original length
    kept = (n_turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    return blend(unscaled, rope, kept)


def interpolate_yarn(unscaled: Float[Tensor, "half"], rope: Rope) -> Float[Tensor, "half"]:
    """Do the same, but blend by the index of the dimension, over a range of indices (YaRN: Peng et al. 2023, 3.2)."""

    def dimension_of(n_turns: float) -> float:
        """Return the index, a fraction, of the frequency that makes this many turns in the original length."""
        return rope.d_head * math.log(original_length(rope) / (n_turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    first, last = dimension_of(rope.beta_fast), dimension_of(rope.beta_slow)
    if rope.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.d_head - 1)
    divided = (torch.arange(unscaled.numel(), dtype=torch.float64, device="cpu") - first) / (last - first or 0.001)
    return blend(unscaled, rope, 1 - divided)


def original_length(rope: Rope) -> int:
    """Return the longest sequence before scaling."""
    if rope.original_max_length is None:
        raise ValueError(f"rope scaling {rope.scaling} needs original_max_length")
    return rope.original_max_length


def blend(unscaled: Float[Tensor, "half"], rope: Rope, kept: Float[Tensor, "half"]) -> Float[Tensor, "half"]:
    """Return a mixture of each frequency and itself divided by the factor; `kept` is the share of the first."""
    kept = kept.clamp(0, 1)
    return kept * unscaled + (1 - kept) * unscaled / rope.factor


SCALINGS: dict[RopeScaling, Callable[[Tensor, Rope], Tensor]] = {
    "none": lambda unscaled, _: unscaled,
    "linear": interpolate_all,
    "llama3": interpolate_llama3,
    "yarn": interpolate_yarn,
}
"""How each kind of scaling changes the frequencies. None depends on the length of the text, so that a token's keys can
be cached: "dynamic" scaling would rotate those of earlier tokens anew whenever the text grows."""


def rope_frequencies(rope: Rope) -> Float[Tensor, "half"]:
    """Return the frequency at which each pair of dimensions rotates, scaled."""
    return SCALINGS[rope.scaling](frequencies(rope.d_head, rope.theta), rope)


def rope_amplitude(rope: Rope) -> float:
    """Return the factor of rotated queries and keys: 1, except with YaRN, which sharpens attention (3.4)."""
    if rope.scaling != "yarn":
        return 1.0
    return 0.1 * math.log(rope.factor) + 1.0 if rope.attention_factor is None else rope.attention_factor


@lru_cache(maxsize=8)
def rotation_table(length: int, rope: Rope) -> Rotation:
    """Return the cosines and sines of every position's rotation."""
    with torch.inference_mode(mode=False):
        angles, amplitude = angle_table(length, rope_frequencies(rope)), rope_amplitude(rope)
        return (angles.cos() * amplitude).float(), (angles.sin() * amplitude).float()


def round_up(length: int) -> int:
    """Round a length up to a power of two, so that few tables are ever computed."""
    return 1 << max(6, (length - 1).bit_length())


def rotate(x: Float[Tensor, "B H T D"], rotation: Rotation) -> Float[Tensor, "B H T D"]:
    """Rotate each pair (x_i, x_{i + D/2}) by its position's angle, so that q·k depends on distance (Su et al. 2021)."""
    cosine, sine = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


def rotation_at(positions: Int[Tensor, "*BT"], longest: int, rope: Rope) -> Rotation:
    """Return the rotation of these positions (T, or B T), all below `longest`."""
    cosine, sine = (t.to(positions.device)[positions] for t in rotation_table(round_up(longest), rope))
    return (cosine, sine) if positions.ndim == 1 else (cosine[:, None], sine[:, None])
