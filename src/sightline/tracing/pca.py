"""Principal component analysis: vectors projected onto the two directions of most variance."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


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


def project(vectors: Float[np.ndarray, "n E"]) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, "2"]]:
    """Return the vectors in their first two principal components, and the share of variance of each."""
    pca = PCA.of(vectors)
    return pca(vectors), pca.explained_variance


def unit_vectors(vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n E"]:
    """Scale vectors to length 1; a zero vector stays zero."""
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
