"""Lists of ids as tensors."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from sightline.text.batch import padded


def grid(rows: Sequence[Sequence[int]], *, like: Tensor) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Return rows as one grid, padded on the right, and their lengths; on the device of `like`.

    What the padding is does not matter: lengths tell where it is, and nothing looks at it.
    """
    ids, lengths = padded([np.asarray(row, dtype=np.int64) for row in rows], pad_id=0)
    return ids.to(like.device), lengths.to(like.device)
