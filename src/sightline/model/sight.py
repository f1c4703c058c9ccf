"""What the layers of one pass see besides their input: where tokens stand, and who may look at whom."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from sightline.model.cache import Cache
from sightline.model.config import BlockConfig
from sightline.model.masks import Mask, padding_mask
from sightline.model.packing import Layout
from sightline.model.positions import Rotation, rotation_at


@dataclass(frozen=True)
class Sight:
    """Made once a pass, used by every layer of it."""

    layout: Layout
    positions: Int[Tensor, "..."]
    """Of each token in its sentence, in whatever shape meets the ids: T, R T or N."""
    longest: int
    """Every position is below it."""
    mask: Mask | None
    rotation: Rotation | None

    @classmethod
    def both_ways(cls, layout: Layout, config: BlockConfig, dtype: torch.dtype) -> "Sight":
        """Let every token see its whole sentence, padding excepted."""
        mask = Mask.of(padding_mask(layout.lengths, layout.longest), dtype=dtype) if layout.has_padding else None
        return cls.over(layout, config, mask)

    @classmethod
    def backwards(cls, layout: Layout, config: BlockConfig, dtype: torch.dtype) -> "Sight":
        """Let every token see itself and those before it.

        Padding stands behind the real tokens, so the look-ahead mask alone already hides it from them.
        """
        return cls.over(layout, config, Mask.look_ahead(layout.longest, dtype=dtype, device=layout.lengths.device))

    @classmethod
    def over(cls, layout: Layout, config: BlockConfig, mask: Mask | None) -> "Sight":
        """Look over whole sentences, which begin at position 0."""
        columns = torch.arange(layout.longest, device=layout.lengths.device)  # attention works on the grid
        return cls(layout, layout.positions(), layout.longest, mask, rotation(columns, layout.longest, config))

    @classmethod
    def onwards(cls, cache: Cache, ids: Int[Tensor, "R T"], config: BlockConfig, dtype: torch.dtype) -> "Sight":
        """Let new tokens see themselves and all that the cache remembers of their row."""
        n_new = ids.size(1)
        positions, longest = cache.positions(n_new), cache.longest + n_new
        return cls(Layout.of(ids), positions, longest, cache.mask(n_new, dtype), rotation(positions, longest, config))


def rotation(positions: Int[Tensor, "..."], longest: int, config: BlockConfig) -> Rotation | None:
    """Return the rotation of queries and keys, in models that rotate them."""
    if config.positions != "rotary":
        return None
    return rotation_at(positions, longest, d_head=config.d_head, base=config.rotary_base)
