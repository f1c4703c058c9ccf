"""Decoder-only models: GPT-2 by default, Llama by settings."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.model.cache import INITIAL_CAPACITY, KVCache, select_last
from sightline.model.config import GPTConfig
from sightline.model.context import AttentionContext
from sightline.model.embedding import TokenEmbedding
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.layers import Stack, initialize, shrink_residual_outputs, small_normal
from sightline.model.packing import Layout


class GPT(nn.Module):
    """Predicts each next token from those before it: causal self-attention only.

    In place of token ids, all methods take vectors: those of `embedding.embed(ids)`, or of anything else.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config, vocab_size=config.vocab_size)
        self.decoder = Stack(config, n_layers=config.n_layers)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        initialize(self, embedding_std=0.02, linear=small_normal())
        shrink_residual_outputs(self.decoder, n_sublayers=2 * config.n_layers)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the tied weights; call again after parameters have been replaced."""
        if self.config.tie_embeddings:
            self.output.weight = self.embedding.tokens.weight

    @property
    def input_embedding(self) -> TokenEmbedding:
        """The embedding of the text."""
        return self.embedding

    def forward(
        self,
        ids: Int[Tensor, "B T"] | Float[Tensor, "B T E"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows V"]:
        """Return the logits of each next token."""
        return self.logits(self.decode(ids, lengths=lengths, packed=packed, hooks=hooks), hooks=hooks)

    def decode(
        self,
        ids: Int[Tensor, "B T"] | Float[Tensor, "B T E"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the last layer's output for whole sequences."""
        hooks = hooks.within("decoder")
        layout = Layout.of(ids, lengths, packed=packed)
        context = AttentionContext.causal(layout, self.config, self.output.weight.dtype)
        x = self.embedding(layout.pack(ids), context, hooks=hooks.within("embedding"))
        hidden: Tensor = self.decoder(x, context, hooks=hooks)
        return layout.trim(hidden)

    def logits(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Project to the logits of every token of the vocabulary."""
        return hooks("logits", self.output(hidden))

    def start(self, n_rows: int, *, capacity: int = INITIAL_CAPACITY) -> KVCache:
        """Start decoding: an empty cache, with room for `capacity` tokens per row at first."""
        return KVCache.empty(
            self.config, n_layers=self.config.n_layers, n_rows=n_rows, capacity=capacity, like=self.output.weight
        )

    def step(
        self,
        ids: Int[Tensor, "R T"] | Float[Tensor, "R T E"],
        cache: KVCache,
        *,
        lengths: Int[Tensor, "R"] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> tuple[Float[Tensor, "R V"], KVCache]:
        """Feed the newest tokens of each row, at first the right-padded prompts; return the next logits and cache."""
        decoder_hooks = hooks.within("decoder")
        context = AttentionContext.incremental(
            cache.reserve_for(ids, lengths), ids, self.config, self.output.weight.dtype
        )
        x = self.embedding(ids, context, hooks=decoder_hooks.within("embedding"))
        hidden = self.decoder(x, context, caches=cache.layers(), hooks=decoder_hooks)
        cache.advance(ids.size(1), lengths)
        return self.logits(select_last(hidden, lengths), hooks=hooks), cache
