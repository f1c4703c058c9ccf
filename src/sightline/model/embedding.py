"""The input embedding: tokens, positions, segments."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError
from sightline.model.attention import Dropout
from sightline.model.config import BlockConfig
from sightline.model.context import AttentionContext
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.positions import round_up, sinusoid_table


class Embedding(nn.Module):
    """Token embedding times √d_model, plus the position encoding (3.4, 3.5), plus the segment embedding if any."""

    def __init__(self, config: BlockConfig, *, vocab_size: int, n_segments: int = 0, normed: bool = False) -> None:
        super().__init__()
        self.kind, self.max_length = config.positions, config.max_length
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length or 0, config.d_model) if self.kind == "learned" else None
        self.segments = nn.Embedding(n_segments, config.d_model) if n_segments else None
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps) if normed else None
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        ids: Int[Tensor, "*rows"],
        context: AttentionContext,
        *,
        segments: Int[Tensor, "*rows"] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Embed tokens at their positions."""
        if self.max_length is not None and context.longest > self.max_length:
            raise InputError(
                f"{context.longest:,} tokens are more than this model can take ({self.max_length:,}): shorten the text"
            )
        try:
            x = self.tokens(ids)
        except IndexError:
            raise InputError(f"ids must lie between 0 and {self.tokens.num_embeddings - 1:,}") from None
        x = hooks("tokens", x * self.scale if self.scale != 1.0 else x)
        if (encoding := self.position_encoding(context.positions, context.longest)) is not None:
            x = x + hooks("positions", encoding)
        if self.segments is not None:
            segments = torch.zeros_like(ids) if segments is None else segments
            x = x + hooks("segments", self.segments(segments))
        if self.norm is not None:
            x = self.norm(x)
        return hooks("output", self.dropout(x))

    def position_encoding(self, positions: Int[Tensor, "*rows"], longest: int) -> Float[Tensor, "*rows E"] | None:
        """Return what is added for the positions, or None for models that add nothing."""
        if self.positions is not None:
            return self.positions(positions)  # type: ignore[no-any-return]
        if not self.kind.startswith("sinusoidal"):
            return None
        weight = self.tokens.weight
        table = sinusoid_table(round_up(longest), weight.size(1), halves=self.kind == "sinusoidal_halves")
        return table.to(device=weight.device, dtype=weight.dtype)[positions]
