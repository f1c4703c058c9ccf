"""Many dimensions on a page: the two directions in which vectors differ most."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Projection:
    """A plane through the middle of some vectors, on which any others can be put too."""

    middle: Float[np.ndarray, "E"]
    directions: Float[np.ndarray, "2 E"]
    shares: Float[np.ndarray, "2"]
    """Of the variance of the vectors, in each direction."""

    @classmethod
    def of(cls, vectors: Float[np.ndarray, "n E"]) -> "Projection":
        """Return the plane of the two directions in which vectors differ most.

        Signs are chosen so that the largest coordinate is positive: the same vectors give the same map everywhere.
        """
        middle = vectors.mean(axis=0, dtype=np.float64)
        _, lengths, found = np.linalg.svd(vectors.astype(np.float64) - middle, full_matrices=False)
        directions, shares = np.zeros((2, vectors.shape[1])), np.zeros(2)
        n = min(2, len(lengths))
        directions[:n] = found[:n]
        shares[:n] = lengths[:n] ** 2 / max(float((lengths**2).sum()), np.finfo(float).tiny)
        flat = cls(middle, directions, shares)(vectors)
        extreme = flat[np.abs(flat).argmax(axis=0), (0, 1)]
        return cls(middle, directions * np.where(extreme < 0, -1.0, 1.0)[:, None], shares)

    def __call__(self, vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n 2"]:
        """Return where vectors are on the plane."""
        flat: np.ndarray = (vectors.astype(np.float64) - self.middle) @ self.directions.T
        return flat


def principal(vectors: Float[np.ndarray, "n E"]) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, "2"]]:
    """Return the vectors in the two directions in which they differ most, and the share of variance of each."""
    plane = Projection.of(vectors)
    return plane(vectors), plane.shares


def unit_vectors(vectors: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n E"]:
    """Return the vectors with length 1; one without a length stays as it is."""
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
