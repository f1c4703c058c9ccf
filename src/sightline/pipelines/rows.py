"""Lists of ids as padded tensors."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from torch import Tensor

from sightline.text.batch import pad


def pad_rows(rows: Sequence[Sequence[int]], *, like: Tensor) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Pad rows on the right into one tensor; return it with their lengths, on the device of `like`.

    The padding id does not matter: the lengths mask it, and nothing attends to it.
    """
    ids, lengths = pad([np.asarray(row, dtype=np.int64) for row in rows], pad_id=0)
    return ids.to(like.device), lengths.to(like.device)
