"""The encoder–decoder of "Attention Is All You Need"."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError
from sightline.model.cache import INITIAL_CAPACITY, DecoderState, KVCache, select_last
from sightline.model.config import TransformerConfig
from sightline.model.context import AttentionContext
from sightline.model.embedding import TokenEmbedding
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.layers import Stack, glorot, initialize
from sightline.model.masks import Mask
from sightline.model.packing import Layout


@dataclass(frozen=True)
class EncoderOutput:
    """The encoder's output, with what cross-attention needs to attend to it."""

    hidden: Float[Tensor, "*rows E"]
    layout: Layout
    mask: Mask | None

    def repeat(self, copies: int) -> "EncoderOutput":
        """Return the output of one sentence, repeated along the batch."""
        hidden = self.hidden.expand(copies, -1, -1)
        return EncoderOutput(hidden, Layout.of(hidden), None)


class Transformer(nn.Module):
    """Encodes a source sentence and predicts a target sentence token by token.

    `lengths` count the real tokens of each right-padded row (default: all). With `packed`, results hold the real
    tokens only, N instead of B T. In place of token ids, either side takes vectors: those of
    `source_embedding.embed(ids)`, or of anything else.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = TokenEmbedding(config, vocab_size=config.vocab_size)
        self.target_embedding = TokenEmbedding(config, vocab_size=config.target_vocab_size or config.vocab_size)
        self.encoder = Stack(config, n_layers=config.n_encoder_layers)
        self.decoder = Stack(config, n_layers=config.n_decoder_layers, cross=True)
        self.output = nn.Linear(config.d_model, config.target_vocab_size or config.vocab_size, bias=config.output_bias)
        initialize(self, embedding_std=config.d_model**-0.5, linear=glorot)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the tied weights; call again after parameters have been replaced."""
        if self.config.target_vocab_size is None:
            self.target_embedding.tokens = self.source_embedding.tokens
        if self.config.tie_embeddings:
            self.output.weight = self.target_embedding.tokens.weight

    @property
    def input_embedding(self) -> TokenEmbedding:
        """The embedding of the source."""
        return self.source_embedding

    @property
    def cross_attention_point(self) -> str:
        """The hook point of the last layer's cross-attention."""
        return f"decoder.{self.config.n_decoder_layers - 1}.cross_attention.weights"

    def forward(
        self,
        source: Int[Tensor, "B S"] | Float[Tensor, "B S E"],
        target: Int[Tensor, "B T"] | Float[Tensor, "B T E"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
        target_lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows V"]:
        """Return the logits of each next target token, given the correct ones before it (teacher forcing)."""
        encoder_output = self.encode(source, lengths=source_lengths, packed=packed, hooks=hooks)
        hidden = self.decode(target, encoder_output, lengths=target_lengths, packed=packed, hooks=hooks)
        return self.logits(hidden, hooks=hooks)

    def encode(
        self,
        source: Int[Tensor, "B S"] | Float[Tensor, "B S E"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> EncoderOutput:
        """Run the encoder over the source."""
        hooks = hooks.within("encoder")
        layout = Layout.of(source, lengths, packed=packed)
        context = AttentionContext.bidirectional(layout, self.config, self.output.weight.dtype)
        x = self.source_embedding(layout.pack(source), context, hooks=hooks.within("embedding"))
        return EncoderOutput(self.encoder(x, context, hooks=hooks), layout, context.mask)

    def decode(
        self,
        target: Int[Tensor, "B T"] | Float[Tensor, "B T E"],
        encoder_output: EncoderOutput,
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the decoder's output for a whole target, each position attending to itself and those before it."""
        n_targets, n_sources = target.size(0), encoder_output.layout.lengths.size(0)
        if n_targets != n_sources:
            raise InputError(f"{n_targets} targets do not match {n_sources} sources")
        hooks = hooks.within("decoder")
        layout = Layout.of(target, lengths, packed=packed)
        context = AttentionContext.causal(layout, self.config, encoder_output.hidden.dtype)
        x = self.target_embedding(layout.pack(target), context, hooks=hooks.within("embedding"))
        cross_kv = self.decoder.project_cross_kv(encoder_output.hidden, encoder_output.layout)
        hidden: Tensor = self.decoder(x, context, cross_kv=cross_kv, cross_mask=encoder_output.mask, hooks=hooks)
        return layout.trim(hidden)

    def logits(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Project to the logits of every token of the vocabulary."""
        return hooks("logits", self.output(hidden))

    def start(self, encoder_output: EncoderOutput, *, capacity: int = INITIAL_CAPACITY) -> DecoderState:
        """Start decoding: one row per sentence, nothing decoded yet, room for `capacity` tokens at first."""
        cache = KVCache.empty(
            self.config,
            n_layers=self.config.n_decoder_layers,
            n_rows=encoder_output.layout.lengths.numel(),
            capacity=capacity,
            like=encoder_output.hidden,
        )
        cross_kv = self.decoder.project_cross_kv(encoder_output.hidden, encoder_output.layout)
        return DecoderState(cache, cross_kv, encoder_output.mask)

    def step(
        self,
        ids: Int[Tensor, "R T"] | Float[Tensor, "R T E"],
        state: DecoderState,
        *,
        lengths: Int[Tensor, "R"] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> tuple[Float[Tensor, "R V"], DecoderState]:
        """Feed the newest tokens of each row; return the logits of the next one and the updated state."""
        decoder_hooks = hooks.within("decoder")
        cache = state.cache
        context = AttentionContext.incremental(
            cache.reserve_for(ids, lengths), ids, self.config, self.output.weight.dtype
        )
        x = self.target_embedding(ids, context, hooks=decoder_hooks.within("embedding"))
        hidden = self.decoder(
            x,
            context,
            cross_kv=state.cross_kv,
            cross_mask=state.cross_mask,
            caches=cache.layers(),
            hooks=decoder_hooks,
        )
        cache.advance(ids.size(1), lengths)
        return self.logits(select_last(hidden, lengths), hooks=hooks), state
