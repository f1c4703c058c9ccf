"""One small batch for each family, and its loss."""

import torch
from torch import Tensor

from sightline.data.datasets.batch import Batch, MaskedBatch, PairBatch, TextBatch
from sightline.model import Model
from sightline.training.objective import Objective
from sightline.training.state import RandomStates

from .toy import WORDS


def small_batch(family: str, *, n_rows: int = 3, length: int = 5, words: int = WORDS) -> Batch:
    generator = torch.Generator().manual_seed(n_rows * 100 + length)
    first, second = torch.randint(1, words, (2, n_rows, length + 1), generator=generator)
    lengths = torch.full((n_rows,), length)
    if family == "transformer":
        return PairBatch(first[:, 1:], lengths, second[:, :-1], second[:, 1:], lengths)
    if family == "gpt":
        return TextBatch(first[:, :-1], first[:, 1:], lengths)
    chosen = torch.arange(length).expand(n_rows, length) % 3 == 0
    ids = first[:, 1:]
    return MaskedBatch(ids.masked_fill(chosen, 0), lengths, torch.zeros_like(ids), chosen, ids[chosen])


def total_loss(model: Model, batch: Batch) -> Tensor:
    return Objective(smoothing=0.1)(model, batch).total


def mean_loss(model: Model, batch: Batch) -> Tensor:
    loss = Objective()(model, batch)
    return loss.total / loss.count


def generators_now() -> dict[str, object]:
    """States of the generators that models use; Python's own is also used by the type checker."""
    return {name: state for name, state in RandomStates.capture().to_entries().items() if name != "python"}
