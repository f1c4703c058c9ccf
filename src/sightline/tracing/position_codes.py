"""The codes of a model's positions: what tells it where a token stands (3.5).

A model that turns queries and keys instead of adding a code (rotary) has the sines and cosines of its angles for codes.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from sightline.errors import InputError
from sightline.model.positions import WAVELENGTH_BASE, frequencies, rotation_table, sinusoid_table


def position_codes(model: Any, *, n: int) -> Float[np.ndarray, "T E"]:
    """Return the codes of the first positions of a model, or of a pipeline that has one."""
    model = getattr(model, "model", model)
    config = model.config
    n = min(n, config.max_length or n)
    if config.positions == "rotary":
        cosine, sine = rotation_table(n, config.d_head, config.rotary_base)
        return interleaved(sine[:n].numpy(), cosine[:n].numpy())
    if config.positions == "learned":
        embedding = model.source_embedding if hasattr(model, "source_embedding") else model.embedding
        codes: np.ndarray = embedding.positions.weight[:n].detach().float().cpu().numpy()
        return codes
    return sinusoids(n, config.d_model, kind=config.positions)


def sinusoids(n: int, width: int, *, kind: str) -> Float[np.ndarray, "T E"]:
    """Return the sinusoids of the first positions."""
    if not kind.startswith("sinusoidal"):
        raise InputError(f"this model has no codes of positions (positions = {kind!r}): there is nothing to draw")
    table: np.ndarray = sinusoid_table(n, width, halves=kind == "sinusoidal_halves")[:n].numpy()
    return table


def interleaved(sine: Float[np.ndarray, "T half"], cosine: Float[np.ndarray, "T half"]) -> Float[np.ndarray, "T D"]:
    """Return sines and cosines in turn."""
    return np.stack((sine, cosine), axis=-1).reshape(len(sine), -1)


def similarities(codes: Float[np.ndarray, "T E"]) -> Float[np.ndarray, "T T"]:
    """Return the cosine of the angle between every two codes."""
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    unit = codes / np.where(lengths > 0, lengths, 1.0)
    alike: np.ndarray = unit @ unit.T
    return alike


def wavelengths(config: Any) -> list[float] | None:
    """Return after how many positions each depth of the codes repeats itself; None where codes are learned."""
    if config.positions == "rotary":
        waves = 2 * math.pi / frequencies(config.d_head, config.rotary_base).numpy()
    elif config.positions.startswith("sinusoidal"):
        waves = 2 * math.pi / frequencies(config.d_model, WAVELENGTH_BASE).numpy()
    else:
        return None
    by_depth = np.tile(waves, 2) if config.positions == "sinusoidal_halves" else np.repeat(waves, 2)
    found: list[float] = by_depth.tolist()
    return found
