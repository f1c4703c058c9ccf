"""The positions and masks of one forward pass, shared by all its layers."""

from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from sightline.model.cache import KVCache
from sightline.model.config import BlockConfig
from sightline.model.masks import Mask, padding_mask
from sightline.model.packing import Layout
from sightline.model.positions import Rotation, rotation_at


@dataclass(frozen=True)
class AttentionContext:
    """Positions, mask and rotation, computed once per forward pass."""

    layout: Layout
    positions: Int[Tensor, "..."]
    """Position of each token in its sentence, broadcastable to the rows: T, R T or N."""
    longest: int
    """Upper bound: every position is below it."""
    mask: Mask | None
    rotation: Rotation | None

    @classmethod
    def bidirectional(cls, layout: Layout, config: BlockConfig, dtype: torch.dtype) -> "AttentionContext":
        """Let every token attend to its whole sentence, except padding."""
        mask = Mask.of(padding_mask(layout.lengths, layout.longest), dtype=dtype) if layout.has_padding else None
        return cls.over_sequences(layout, config, mask)

    @classmethod
    def causal(cls, layout: Layout, config: BlockConfig, dtype: torch.dtype) -> "AttentionContext":
        """Let every token attend to itself and those before it.

        Padding follows the real tokens, so the causal mask alone already hides it from them.
        """
        return cls.over_sequences(
            layout, config, Mask.causal(layout.longest, dtype=dtype, device=layout.lengths.device)
        )

    @classmethod
    def over_sequences(cls, layout: Layout, config: BlockConfig, mask: Mask | None) -> "AttentionContext":
        """Build the context of whole sentences, which start at position 0."""
        columns = torch.arange(layout.longest, device=layout.lengths.device)  # attention works on the grid
        return cls(layout, layout.positions(), layout.longest, mask, rotation(columns, layout.longest, config))

    @classmethod
    def incremental(
        cls, cache: KVCache, inputs: Shaped[Tensor, "R T *rest"], config: BlockConfig, dtype: torch.dtype
    ) -> "AttentionContext":
        """Let new tokens attend to themselves and all cached tokens of their row."""
        n_new = inputs.size(1)
        positions, longest = cache.positions(n_new), cache.longest + n_new
        return cls(
            Layout.of(inputs), positions, longest, cache.mask(n_new, dtype), rotation(positions, longest, config)
        )


def rotation(positions: Int[Tensor, "..."], longest: int, config: BlockConfig) -> Rotation | None:
    """Return the rotation of queries and keys, in models with rotary positions."""
    if config.positions != "rope":
        return None
    return rotation_at(positions, longest, config.rope)
