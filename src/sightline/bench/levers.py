"""What makes our training step fast, each lever by itself: a step without it shows what it gives.

A lever is undone in the contender's own process, before the model is built.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sightline.data.datasets.batch import token_mask
from sightline.model import attention, packing
from sightline.training import objective

PRODUCTS: dict[str, dict[str, Any]] = {
    "chosen products of linear maps": {"linear": {}},
    "chosen products of the output projection": {"projection": {}},
    "attention in batches": {"attention": "fused"},
}
"""Choices of `training.precision=auto` that can be left out: the fields of `Products` without them."""


def keep_padding() -> None:
    """Compute padded grids; only the loss leaves padding out."""
    whole = packing.Layout.of.__func__  # type: ignore[attr-defined]

    def of(cls: type, batch: Tensor, lengths: Tensor | None = None, *, packed: bool = False) -> Any:  # noqa: ARG001
        return whole(cls, batch, lengths, packed=False)

    def drop(layout: packing.Layout, hidden: Tensor) -> Tensor:
        return hidden[token_mask(hidden[..., 0], layout.lengths)]

    packing.Layout.of = classmethod(of)  # type: ignore[assignment, method-assign]
    packing.Layout.trim = drop  # type: ignore[assignment, method-assign]


def project_at_once() -> None:
    """Compute the logits of all tokens at once, and keep them for the backward pass."""

    def whole(
        hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None, smoothing: float, r_drop: float
    ) -> Tensor:
        assert not r_drop  # noqa: S101 - no benchmark uses it
        return F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum", label_smoothing=smoothing)

    vars(objective)["projected_cross_entropy"] = whole


def draw_dropout_by_torch() -> None:
    """Draw a random number for each element, as torch's own dropout does."""

    def keep_factors(like: Tensor, probability: float) -> Tensor:
        return torch.empty_like(like).bernoulli_(1 - probability).div_(1 - probability)

    attention.keep_factors = keep_factors


def project_heads_apart() -> None:
    """Compute queries, keys and values by a product each."""
    attention.MIN_ROWS_TO_FUSE = 1 << 62


CHANGES: dict[str, Callable[[], None]] = {
    "packing": keep_padding,
    "output projection in chunks": project_at_once,
    "cheap random bits for dropout": draw_dropout_by_torch,
    "one product for queries, keys and values": project_heads_apart,
}
"""Levers of the code: functions that undo them."""
KEPT_MEMORY = "memory that is kept when freed"
LEVERS = (*PRODUCTS, *CHANGES, KEPT_MEMORY)
