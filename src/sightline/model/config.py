"""What every family of the Transformer has in common: the sizes and choices of its blocks."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.settings import Checks

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
NormOrder = Literal["post", "pre"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Sizes and choices shared by `Transformer`, `Bert` and `GPT`; the defaults are the paper's."""

    vocab_size: int = field(metadata={"help": "different tokens"})
    d_model: int = field(default=512, metadata={"help": "width of the vectors that stand for tokens"})
    n_heads: int = field(default=8, metadata={"help": "heads of every attention"})
    n_kv_heads: int | None = field(
        default=None, metadata={"help": "heads of keys and values, each shared by several heads; none: one for each"}
    )
    d_ff: int = field(default=2048, metadata={"help": "width of the feed-forward layers"})
    dropout: float = field(default=0.1, metadata={"help": "share of the numbers set to zero while learning"})
    attention_dropout: float = field(
        default=0.0, metadata={"help": "the same of attention weights; the fused kernel cannot, so this is slower"}
    )
    activation: Activation = field(default="relu", metadata={"help": "what stands between the feed-forward matrices"})
    norm: Norm = field(default="layer", metadata={"help": "layer: mean and deviation; rms: the size only"})
    norm_order: NormOrder = field(
        default="post", metadata={"help": "post: after each sublayer, as in the paper; pre: before it, easier to train"}
    )
    norm_epsilon: float = field(default=1e-5, metadata={"help": "what a norm adds before it divides"})
    bias: bool = field(default=True, metadata={"help": "whether linear layers and norms add a bias"})
    positions: Positions = field(default="sinusoidal", metadata={"help": "how a token knows its place"})
    max_length: int | None = field(
        default=None,
        metadata={"help": "longest sequence that is taken; none: no limit, which learned positions cannot do"},
    )
    rotary_base: float = field(default=10_000.0, metadata={"help": "longest wavelength of rotary positions, about"})
    scaled_embedding: bool = field(
        default=True, metadata={"help": "multiply token embeddings by √d_model (3.4 of the paper)"}
    )
    tied_output: bool = field(
        default=True, metadata={"help": "the output projection is the token embedding, transposed"}
    )
    output_bias: bool = field(default=False, metadata={"help": "whether the output projection adds a bias"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 4_000_000, vocab_size=self.vocab_size)
        checks.between(1, 65_536, d_model=self.d_model, n_heads=self.n_heads)
        checks.between(1, 1_048_576, d_ff=self.d_ff)
        checks.between(0, 0.99, dropout=self.dropout, attention_dropout=self.attention_dropout)
        checks.between(1e-20, 1, norm_epsilon=self.norm_epsilon)
        checks.between(1, 1e12, rotary_base=self.rotary_base)
        if not checks.problems:
            self.check_heads(checks)
        if self.max_length is not None:
            checks.between(1, 16_777_216, max_length=self.max_length)
        checks.that(self.positions != "learned" or self.max_length is not None, "learned positions need max_length")
        self.check(checks)
        checks.done()

    def check_heads(self, checks: Checks) -> None:
        """Note head counts that do not divide what they must."""
        checks.that(
            self.d_model % self.n_heads == 0, f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}"
        )
        groups = self.n_heads if self.n_kv_heads is None else self.n_kv_heads
        checks.that(
            groups > 0 and self.n_heads % groups == 0,
            f"n_heads {self.n_heads} is not a multiple of n_kv_heads {groups}",
        )
        if self.positions == "rotary":
            checks.that(self.d_head % 2 == 0, f"rotary positions need an even head width, not {self.d_head}")
        elif self.positions.startswith("sinusoidal"):
            checks.that(self.d_model % 2 == 0, f"sinusoidal positions need an even d_model, not {self.d_model}")

    def check(self, checks: Checks) -> None:
        """Note what is out of range in the fields a family adds."""

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads


def check_layers(checks: Checks, **counts: int) -> None:
    """Note layer counts no one means."""
    checks.between(1, 1024, **counts)
