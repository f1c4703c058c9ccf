"""Decoder-only models: GPT-2's shape by default, Llama's by settings."""

from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.model.cache import FIRST_CAPACITY, Cache, last_of
from sightline.model.config import Activation, BlockConfig, NormOrder, Positions, check_layers
from sightline.model.embedding import Embedding
from sightline.model.initialize import initialize, shrink_residual_outputs, small_normal
from sightline.model.layers import Stack
from sightline.model.packing import Layout
from sightline.model.probe import IDLE, Idle
from sightline.model.sight import Sight
from sightline.settings import Checks


@dataclass(frozen=True, kw_only=True)
class GPTConfig(BlockConfig):
    """A decoder-only model; the defaults are GPT-2 small's, but for attention dropout, which the kernel cannot do."""

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = field(default=12, metadata={"help": "layers"})
    activation: Activation = "gelu_tanh"
    norm_order: NormOrder = "pre"
    positions: Positions = "learned"
    max_length: int | None = 1024
    scaled_embedding: bool = False

    def check(self, checks: Checks) -> None:
        """Note impossible layer counts."""
        check_layers(checks, n_layers=self.n_layers)


class GPT(nn.Module):
    """Predicts each next token from those before it: causal self-attention only."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, vocab_size=config.vocab_size)
        self.decoder = Stack(config, n_layers=config.n_layers)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        initialize(self, embedding_std=0.02, linear=small_normal())
        shrink_residual_outputs(self.decoder, n_sublayers=2 * config.n_layers)
        self.tie()

    def tie(self) -> None:
        """Make weights that are one, one: called again whenever parameters have been exchanged."""
        if self.config.tied_output:
            self.output.weight = self.embedding.tokens.weight

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows V"]:
        """Return the scores of each next token."""
        return self.logits(self.decode(ids, lengths=lengths, packed=packed, probe=probe), probe=probe)

    def decode(
        self,
        ids: Int[Tensor, "B T"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Return the last layer's output for whole sequences."""
        probe = probe.within("decoder")
        layout = Layout.of(ids, lengths, packed=packed)
        sight = Sight.backwards(layout, self.config, self.output.weight.dtype)
        x = self.embedding(layout.pack(ids), sight, probe=probe.within("embedding"))
        hidden: Tensor = self.decoder(x, sight, probe=probe)
        return hidden

    def logits(self, hidden: Float[Tensor, "*rows E"], *, probe: Idle = IDLE) -> Float[Tensor, "*rows V"]:
        """Return the score of every token of the vocabulary."""
        return probe("logits", self.output(hidden))

    def start(self, n_rows: int, *, capacity: int = FIRST_CAPACITY) -> Cache:
        """Begin decoding: nothing seen yet, room for `capacity` tokens at first."""
        return Cache.empty(
            self.config, n_layers=self.config.n_layers, n_rows=n_rows, capacity=capacity, like=self.output.weight
        )

    def step(
        self, ids: Int[Tensor, "R T"], cache: Cache, *, lengths: Int[Tensor, "R"] | None = None, probe: Idle = IDLE
    ) -> tuple[Float[Tensor, "R V"], Cache]:
        """Take the newest tokens of each row, at first the right-padded prompts; return the scores of what follows."""
        decoder_probe = probe.within("decoder")
        sight = Sight.onwards(cache.make_room(ids, lengths), ids, self.config, self.output.weight.dtype)
        x = self.embedding(ids, sight, probe=decoder_probe.within("embedding"))
        hidden = self.decoder(x, sight, caches=cache.layers(), probe=decoder_probe)
        cache.advance(ids.size(1), lengths)
        return self.logits(last_of(hidden, lengths), probe=probe), cache
