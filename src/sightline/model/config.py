"""The settings that all families of the Transformer share: sizes and choices of their blocks."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.config import Checks

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]

Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "none"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Sizes and choices shared by `Transformer`, `Bert` and `GPT`; the defaults are the paper's."""

    vocab_size: int = field(metadata={"help": "vocabulary size: number of different tokens"})
    d_model: int = field(default=512, metadata={"help": "model width: size of the vector of each token"})
    n_heads: int = field(default=8, metadata={"help": "attention heads"})
    n_kv_heads: int | None = field(
        default=None,
        metadata={"help": "key and value heads, each shared by several query heads (GQA); none: as many as n_heads"},
    )
    d_ff: int = field(default=2048, metadata={"help": "feed-forward width"})
    dropout: float = field(
        default=0.1, metadata={"help": "dropout probability: share of activations zeroed during training"}
    )
    attention_dropout: float = field(
        default=0.0,
        metadata={"help": "dropout probability of attention weights; slower, since the fused kernel is not used"},
    )
    activation: Activation = field(default="relu", metadata={"help": "activation function of the feed-forward layers"})
    norm: Norm = field(
        default="layer", metadata={"help": "normalization: layer (mean and variance) or rms (root mean square only)"}
    )
    pre_norm: bool = field(
        default=False,
        metadata={"help": "normalize before each sublayer (easier to train); false: after it, as in the paper"},
    )
    norm_eps: float = field(
        default=1e-5, metadata={"help": "epsilon of the norms, added to the variance to avoid division by zero"}
    )
    bias: bool = field(default=True, metadata={"help": "bias in linear layers and norms"})
    positions: Positions = field(default="sinusoidal", metadata={"help": "position encoding"})
    max_length: int | None = field(
        default=None,
        metadata={"help": "longest sequence in tokens; none: no limit (not possible with learned positions)"},
    )
    rope_theta: float = field(default=10_000.0, metadata={"help": "base of the rotary position frequencies (RoPE)"})
    scale_embeddings: bool = field(
        default=True, metadata={"help": "multiply token embeddings by √d_model (3.4 of the paper)"}
    )
    tie_embeddings: bool = field(
        default=True, metadata={"help": "share the weights of token embedding and output projection"}
    )
    output_bias: bool = field(default=False, metadata={"help": "bias in the output projection"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 4_000_000, vocab_size=self.vocab_size)
        checks.between(1, 65_536, d_model=self.d_model, n_heads=self.n_heads)
        checks.between(1, 1_048_576, d_ff=self.d_ff)
        checks.between(0, 0.99, dropout=self.dropout, attention_dropout=self.attention_dropout)
        checks.between(1e-20, 1, norm_eps=self.norm_eps)
        checks.between(1, 1e12, rope_theta=self.rope_theta)
        if not checks.problems:
            self.check_heads(checks)
        if self.max_length is not None:
            checks.between(1, 16_777_216, max_length=self.max_length)
        checks.that(self.positions != "learned" or self.max_length is not None, "learned positions need max_length")
        self.check(checks)
        checks.done()

    def check_heads(self, checks: Checks) -> None:
        """Note head counts and widths that do not divide evenly."""
        checks.that(
            self.d_model % self.n_heads == 0, f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}"
        )
        groups = self.n_heads if self.n_kv_heads is None else self.n_kv_heads
        checks.that(
            groups > 0 and self.n_heads % groups == 0,
            f"n_heads {self.n_heads} is not a multiple of n_kv_heads {groups}",
        )
        if self.positions == "rope":
            checks.that(self.d_head % 2 == 0, f"rotary positions need an even head width, not {self.d_head}")
        elif self.positions.startswith("sinusoidal"):
            checks.that(self.d_model % 2 == 0, f"sinusoidal positions need an even d_model, not {self.d_model}")

    def check(self, checks: Checks) -> None:
        """Note values out of range in the fields that a family adds."""

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads


def check_layers(checks: Checks, **counts: int) -> None:
    """Note layer counts out of range."""
    checks.between(1, 1024, **counts)
