"""Logits over a vocabulary, a chunk of rows at a time: those of all rows may not fit in memory."""

from collections.abc import Callable, Iterator

from jaxtyping import Float
from torch import Tensor

CHUNK_BYTES = 64 << 20
"""Size of the logits of one chunk. Smaller chunks save memory but make thin, slow matrix products (docs/log.md)."""


def iter_chunks(n_rows: int, *, row_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[slice]:
    """Yield slices of rows whose logits fit into one chunk, or of one row; no rows are one empty slice."""
    step = max(1, chunk_bytes // row_bytes)
    return (slice(start, min(start + step, n_rows)) for start in range(0, max(1, n_rows), step))


def iter_logits(
    project: Callable[[Tensor], Tensor], hidden: Float[Tensor, "*copies N E"], *, vocab_size: int
) -> Iterator[tuple[slice, Float[Tensor, "*copies n V"]]]:
    """Yield the logits of the rows in chunks, in float32, each with the slice of rows it covers."""
    n_copies = hidden.shape[:-2].numel()
    for at in iter_chunks(hidden.size(-2), row_bytes=4 * vocab_size * n_copies):
        yield at, project(hidden[..., at, :]).float()
