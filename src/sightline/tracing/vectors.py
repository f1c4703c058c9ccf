"""Vectors to be drawn: the position encodings of a model, and any vectors projected by PCA or compared by cosine."""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from sightline.errors import InputError
from sightline.model import Model
from sightline.model.positions import WAVELENGTH_BASE, frequencies, rope_frequencies, rotation_table, sinusoid_table


@runtime_checkable
class HasModel(Protocol):
    """A pipeline, as far as its position encodings need it."""

    @property
    def model(self) -> Model:
        """The model."""


def position_encodings(drawn_from: Model | HasModel, *, n: int) -> Float[np.ndarray, "T E"]:
    """Return the encodings of the first `n` positions of a model, or of the model of a pipeline.

    Rotary embeddings rotate queries and keys instead of adding a vector: theirs are the sines and cosines of the
    angles.
    """
    model = drawn_from if isinstance(drawn_from, Model) else drawn_from.model
    config = model.config
    n = min(n, config.max_length or n)
    kind = getattr(config, "positions", "none")
    if kind == "rope":
        cosine, sine = rotation_table(n, config.rope)  # type: ignore[attr-defined]
        return interleave(sine[:n].numpy(), cosine[:n].numpy())
    if kind == "learned":
        embedding: Any = model.input_embedding
        encodings: np.ndarray = embedding.positions.weight[:n].detach().float().cpu().numpy()
        return encodings
    return sinusoids(n, config.d_model, kind=kind)


def sinusoids(n: int, width: int, *, kind: str) -> Float[np.ndarray, "T E"]:
    """Return the sinusoidal encodings of the first `n` positions."""
    if not kind.startswith("sinusoidal"):
        raise InputError(f"this model has no position encodings (positions = {kind!r}): there is nothing to draw")
    table: np.ndarray = sinusoid_table(n, width, halves=kind == "sinusoidal_halves")[:n].numpy()
    return table


def interleave(sine: Float[np.ndarray, "T half"], cosine: Float[np.ndarray, "T half"]) -> Float[np.ndarray, "T D"]:
    """Alternate sines and cosines."""
    return np.stack((sine, cosine), axis=-1).reshape(len(sine), -1)


def wavelengths(config: Any) -> list[float] | None:
    """Return the wavelength of each dimension, in positions; None for learned encodings."""
    kind = getattr(config, "positions", "none")
    if kind == "rope":
        waves = 2 * math.pi / rope_frequencies(config.rope).numpy()
    elif config.positions.startswith("sinusoidal"):
        waves = 2 * math.pi / frequencies(config.d_model, WAVELENGTH_BASE).numpy()
    else:
        return None
    by_dimension = np.tile(waves, 2) if config.positions == "sinusoidal_halves" else np.repeat(waves, 2)
    found: list[float] = by_dimension.tolist()
    return found


@dataclass(frozen=True)
class PCA:
    """The first two principal components of some vectors; projects any others too."""

    mean: Float[np.ndarray, "E"]
    components: Float[np.ndarray, "2 E"]
    explained_variance: Float[np.ndarray, "2"]
    """Share of the variance in each direction."""

    @classmethod
    def of(cls, vectors: Float[np.ndarray, "n E"]) -> "PCA":
        """Fit the first two principal components.

        Signs are chosen so that the largest coordinate is positive: the same vectors give the same map everywhere.
        """
        mean = vectors.mean(axis=0, dtype=np.float64)
        _, singular, found = np.linalg.svd(vectors.astype(np.float64) - mean, full_matrices=False)
        components, explained = np.zeros((2, vectors.shape[1])), np.zeros(2)
        n = min(2, len(singular))
        components[:n] = found[:n]
        explained[:n] = singular[:n] ** 2 / max(float((singular**2).sum()), np.finfo(float).tiny)
        flat = cls(mean, components, explained)(vectors)
        extreme = flat[np.abs(flat).argmax(axis=0), (0, 1)]
        return cls(mean, components * np.where(extreme < 0, -1.0, 1.0)[:, None], explained)

    def __call__(self, vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n 2"]:
        """Return the coordinates of vectors in the two components."""
        flat: np.ndarray = (vectors.astype(np.float64) - self.mean) @ self.components.T
        return flat


def project_pca(vectors: Float[np.ndarray, "n E"]) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, "2"]]:
    """Return the vectors in their first two principal components, and the share of variance of each."""
    pca = PCA.of(vectors)
    return pca(vectors), pca.explained_variance


def cosine_similarities(vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n n"]:
    """Return the cosine similarity of every two vectors; that of a zero vector is 0."""
    unit = unit_vectors(vectors)
    similarities: np.ndarray = unit @ unit.T
    return similarities


def unit_vectors(vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n E"]:
    """Scale vectors to length 1; a zero vector stays zero."""
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
