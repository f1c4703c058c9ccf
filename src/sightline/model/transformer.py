"""The encoder–decoder of "Attention Is All You Need"."""

from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError
from sightline.model.cache import FIRST_CAPACITY, Cache, DecoderState, last_of
from sightline.model.config import BlockConfig, check_layers
from sightline.model.embedding import Embedding
from sightline.model.initialize import glorot, initialize
from sightline.model.layers import Stack
from sightline.model.masks import Mask
from sightline.model.packing import Layout
from sightline.model.probe import IDLE, Idle
from sightline.model.sight import Sight
from sightline.settings import Checks


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """An encoder–decoder; the defaults are the paper's base model."""

    n_encoder_layers: int = field(default=6, metadata={"help": "layers that read the source"})
    n_decoder_layers: int = field(default=6, metadata={"help": "layers that write the target"})
    target_vocab_size: int | None = field(
        default=None, metadata={"help": "none: source and target share one vocabulary and one embedding table (3.4)"}
    )

    def check(self, checks: Checks) -> None:
        """Note impossible layer counts and vocabularies."""
        check_layers(checks, n_encoder_layers=self.n_encoder_layers, n_decoder_layers=self.n_decoder_layers)
        if self.target_vocab_size is not None:
            checks.between(1, 4_000_000, target_vocab_size=self.target_vocab_size)


@dataclass(frozen=True)
class Memory:
    """The encoder's output, with what is needed to look at it."""

    hidden: Float[Tensor, "*rows E"]
    layout: Layout
    mask: Mask | None


class Transformer(nn.Module):
    """Reads a source sentence and predicts a target sentence token by token.

    `lengths` tell how many tokens of each right-padded row are real (all, when not given). With `packed`, results
    hold the real tokens only, N instead of B T.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = Embedding(config, vocab_size=config.vocab_size)
        self.target_embedding = Embedding(config, vocab_size=config.target_vocab_size or config.vocab_size)
        self.encoder = Stack(config, n_layers=config.n_encoder_layers)
        self.decoder = Stack(config, n_layers=config.n_decoder_layers, cross=True)
        self.output = nn.Linear(config.d_model, config.target_vocab_size or config.vocab_size, bias=config.output_bias)
        initialize(self, embedding_std=config.d_model**-0.5, linear=glorot)
        self.tie()

    def tie(self) -> None:
        """Make weights that are one, one: called again whenever parameters have been exchanged."""
        if self.config.target_vocab_size is None:
            self.target_embedding.tokens = self.source_embedding.tokens
        if self.config.tied_output:
            self.output.weight = self.target_embedding.tokens.weight

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, "B"] | None = None,
        target_lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows V"]:
        """Return the scores of each next target token, the correct ones before it being seen (teacher forcing)."""
        memory = self.encode(source, lengths=source_lengths, packed=packed, probe=probe)
        return self.logits(self.decode(target, memory, lengths=target_lengths, packed=packed, probe=probe), probe=probe)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Memory:
        """Read the source."""
        probe = probe.within("encoder")
        layout = Layout.of(source, lengths, packed=packed)
        sight = Sight.both_ways(layout, self.config, self.output.weight.dtype)
        x = self.source_embedding(layout.pack(source), sight, probe=probe.within("embedding"))
        return Memory(self.encoder(x, sight, probe=probe), layout, sight.mask)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Return the decoder's output for a whole target, each position seeing only those before it."""
        if target.size(0) != memory.layout.lengths.size(0):
            raise InputError(f"{target.size(0)} targets cannot belong to {memory.layout.lengths.size(0)} sources")
        probe = probe.within("decoder")
        layout = Layout.of(target, lengths, packed=packed)
        sight = Sight.backwards(layout, self.config, memory.hidden.dtype)
        x = self.target_embedding(layout.pack(target), sight, probe=probe.within("embedding"))
        remembered = self.decoder.remember(memory.hidden, memory.layout)
        hidden: Tensor = self.decoder(x, sight, memory=remembered, memory_mask=memory.mask, probe=probe)
        return hidden

    def logits(self, hidden: Float[Tensor, "*rows E"], *, probe: Idle = IDLE) -> Float[Tensor, "*rows V"]:
        """Return the score of every token of the vocabulary."""
        return probe("logits", self.output(hidden))

    def start(self, memory: Memory, *, capacity: int = FIRST_CAPACITY) -> DecoderState:
        """Begin decoding: one row a sentence, nothing decoded yet, room for `capacity` tokens at first."""
        cache = Cache.empty(
            self.config,
            n_layers=self.config.n_decoder_layers,
            n_rows=memory.layout.lengths.numel(),
            capacity=capacity,
            like=memory.hidden,
        )
        return DecoderState(cache, self.decoder.remember(memory.hidden, memory.layout), memory.mask)

    def step(
        self,
        ids: Int[Tensor, "R T"],
        state: DecoderState,
        *,
        lengths: Int[Tensor, "R"] | None = None,
        probe: Idle = IDLE,
    ) -> tuple[Float[Tensor, "R V"], DecoderState]:
        """Take the newest tokens of each row; return the scores of the one that follows, and the state after them."""
        decoder_probe = probe.within("decoder")
        cache = state.cache
        sight = Sight.onwards(cache.make_room(ids, lengths), ids, self.config, self.output.weight.dtype)
        x = self.target_embedding(ids, sight, probe=decoder_probe.within("embedding"))
        hidden = self.decoder(
            x, sight, memory=state.memory, memory_mask=state.mask, caches=cache.layers(), probe=decoder_probe
        )
        cache.advance(ids.size(1), lengths)
        return self.logits(last_of(hidden, lengths), probe=probe), state
