"""From ids to vectors: token embeddings, positions, segments."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError
from sightline.model.config import BlockConfig
from sightline.model.dropout import Dropout
from sightline.model.positions import rounded_up, sinusoid_table
from sightline.model.probe import IDLE, Idle
from sightline.model.sight import Sight


class Embedding(nn.Module):
    """Token embedding times √d_model, plus the position's code (3.4, 3.5), plus the segment's where there are any."""

    def __init__(self, config: BlockConfig, *, vocab_size: int, n_segments: int = 0, normed: bool = False) -> None:
        super().__init__()
        self.kind, self.max_length = config.positions, config.max_length
        self.scale = math.sqrt(config.d_model) if config.scaled_embedding else 1.0
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length or 0, config.d_model) if self.kind == "learned" else None
        self.segments = nn.Embedding(n_segments, config.d_model) if n_segments else None
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon) if normed else None
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        ids: Int[Tensor, "*rows"],
        sight: Sight,
        *,
        segments: Int[Tensor, "*rows"] | None = None,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Embed tokens where they stand."""
        if self.max_length is not None and sight.longest > self.max_length:
            raise InputError(
                f"{sight.longest:,} tokens are more than this model can take ({self.max_length:,}): shorten the text"
            )
        try:
            x = self.tokens(ids)
        except IndexError:
            raise InputError(f"ids must lie between 0 and {self.tokens.num_embeddings - 1:,}") from None
        x = probe("tokens", x * self.scale if self.scale != 1.0 else x)
        if (code := self.position_code(sight.positions, sight.longest)) is not None:
            x = x + probe("positions", code)
        if self.segments is not None:
            kinds = torch.zeros_like(ids) if segments is None else segments
            x = x + probe("segments", self.segments(kinds))
        if self.norm is not None:
            x = self.norm(x)
        return probe("output", self.dropout(x))

    def position_code(self, positions: Int[Tensor, "*rows"], longest: int) -> Float[Tensor, "*rows E"] | None:
        """Return what is added for the positions, if anything is."""
        if self.positions is not None:
            return self.positions(positions)  # type: ignore[no-any-return]
        if not self.kind.startswith("sinusoidal"):
            return None
        weight = self.tokens.weight
        table = sinusoid_table(rounded_up(longest), weight.size(1), halves=self.kind == "sinusoidal_halves")
        return table.to(device=weight.device, dtype=weight.dtype)[positions]
