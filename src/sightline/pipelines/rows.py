"""Lists of ids as tensors."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from sightline.text.batch import padded


def grid(
    rows: Sequence[Sequence[int]], *, like: Tensor, pad_id: int = 0
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Return rows as one grid, padded on the right (with anything: nobody looks at it), and their lengths."""
    ids, lengths = padded([np.asarray(row, dtype=np.int64) for row in rows], pad_id=pad_id)
    return ids.to(like.device), lengths.to(like.device)
