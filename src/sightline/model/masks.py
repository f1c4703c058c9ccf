"""Attention masks: padding and causal masks, and the additive form that attention uses.

Masks are built as booleans, True where a query may attend to a key, so that they compose with `&`. Attention adds them
to its scores: 0 where allowed, −∞ where not.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, "B"], longest: int) -> Bool[Tensor, "B 1 1 S"]:
    """Allow every query to attend to the first `lengths` keys of its own sentence."""
    return (torch.arange(longest, device=lengths.device) < lengths[:, None])[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "1 1 T T"]:
    """Allow every position to attend to itself and those before it (3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def cached_mask(first: Int[Tensor, "R"], n_new: int, n_keys: int) -> Bool[Tensor, "R 1 T S"]:
    """Allow new tokens, the first of each row at position `first`, to attend to all keys up to themselves."""
    position = first[:, None] + torch.arange(n_new, device=first.device)  # R T
    return (torch.arange(n_keys, device=first.device) <= position[:, :, None])[:, None]


@dataclass(frozen=True)
class Mask:
    """A mask in additive form, computed once and shared by all layers."""

    additive: Float[Tensor, "#B #H #T S"]
    is_causal: bool = False
    """Exactly the square causal mask, which the fused kernel applies without reading it."""

    @cached_property
    def hides_everything(self) -> bool:
        """Whether some query may attend to nothing: its text is empty."""
        if self.is_causal or not self.additive.numel():
            return False
        return bool((self.additive.amax(dim=-1) == -math.inf).any())

    @classmethod
    def of(cls, allowed: Bool[Tensor, "#B #H #T S"], *, dtype: torch.dtype = torch.float32) -> "Mask":
        """Return 0 where `allowed` and −∞ elsewhere."""
        return cls(torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, -math.inf))

    @classmethod
    def causal(cls, length: int, *, dtype: torch.dtype = torch.float32, device: torch.device | None = None) -> "Mask":
        """Return the causal mask for a whole sequence."""
        return cls(cls.of(causal_mask(length, device), dtype=dtype).additive, is_causal=True)
