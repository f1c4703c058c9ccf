"""The input embedding: tokens, or anything else that is read, with positions and segments."""

import math

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from sightline.errors import InputError
from sightline.model.attention import Dropout, TokenDropout
from sightline.model.config import BlockConfig
from sightline.model.context import AttentionContext
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.positions import round_up, sinusoid_table


class Embedding(nn.Module):
    """Vectors of tokens times √d_model, plus the position encoding (3.4, 3.5), plus the segment embedding if any.

    `tokens` turns what is read into vectors of width d_model: a table for token ids (`TokenEmbedding`), a linear map
    for picture patches or speech frames.
    """

    def __init__(self, config: BlockConfig, tokens: nn.Module, *, n_segments: int = 0, normed: bool = False) -> None:
        super().__init__()
        self.kind, self.max_length = config.positions, config.max_length
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.tokens = tokens
        self.positions = nn.Embedding(config.max_length or 0, config.d_model) if self.kind == "learned" else None
        self.segments = nn.Embedding(n_segments, config.d_model) if n_segments else None
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps) if normed else None
        self.dropout, self.token_dropout = Dropout(config.dropout), TokenDropout(config.token_dropout)

    def forward(
        self,
        inputs: Shaped[Tensor, "..."],
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
        x = self.token_dropout(hooks("tokens", self.embed(inputs)))
        if (encoding := self.position_encoding(x, context)) is not None:
            x = x + hooks("positions", encoding)
        if self.segments is not None:
            segments = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device) if segments is None else segments
            x = x + hooks("segments", self.segments(segments))
        if self.norm is not None:
            x = self.norm(x)
        return hooks("output", self.dropout(x))

    def embed(self, inputs: Shaped[Tensor, "..."]) -> Float[Tensor, "*rows E"]:
        """Return the vectors of what is read, without positions and segments."""
        x: Tensor = self.tokens(inputs)
        return x * self.scale if self.scale != 1.0 else x

    def position_encoding(self, x: Float[Tensor, "*rows E"], context: AttentionContext) -> Float[Tensor, "..."] | None:
        """Return what is added to x for its positions, or None for models that add nothing."""
        if self.positions is not None:
            return self.positions(context.positions)  # type: ignore[no-any-return]
        if not self.kind.startswith("sinusoidal"):
            return None
        table = sinusoid_table(round_up(context.longest), x.size(-1), halves=self.kind == "sinusoidal_halves")
        return table.to(device=x.device, dtype=x.dtype)[context.positions]


class TokenEmbedding(Embedding):
    """The embedding of token ids, in whose place their vectors may be given: `embedding.embed(ids)`, or any others."""

    tokens: nn.Embedding

    def __init__(self, config: BlockConfig, *, vocab_size: int, n_segments: int = 0, normed: bool = False) -> None:
        super().__init__(config, nn.Embedding(vocab_size, config.d_model), n_segments=n_segments, normed=normed)

    def embed(self, inputs: Int[Tensor, "*rows"] | Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Look up the vectors of token ids; vectors stay as they are."""
        if inputs.is_floating_point():
            if inputs.size(-1) != self.tokens.embedding_dim:
                raise InputError(f"vectors must be {self.tokens.embedding_dim} wide (d_model), not {inputs.size(-1)}")
            return inputs
        try:
            return super().embed(inputs)
        except IndexError:
            raise InputError(f"ids must lie between 0 and {self.tokens.num_embeddings - 1:,}") from None
