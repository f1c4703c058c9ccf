"""What every family of the Transformer has in common: the sizes and choices of its blocks."""

from dataclasses import dataclass
from typing import Literal

from sightline.settings import Checks

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
NormOrder = Literal["post", "pre"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Sizes and choices shared by `Transformer`, `Bert` and `GPT`; the defaults are the paper's."""

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    n_kv_heads: int | None = None
    """Heads of keys and values, each shared by n_heads / n_kv_heads query heads; None: one for each."""
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    """Of attention weights, as some train; the fused kernel cannot, so this is slower."""
    activation: Activation = "relu"
    norm: Norm = "layer"
    norm_order: NormOrder = "post"
    norm_epsilon: float = 1e-5
    bias: bool = True
    positions: Positions = "sinusoidal"
    max_length: int | None = None
    """Longest sequence that is taken; None for no limit, which learned positions cannot do."""
    rotary_base: float = 10_000.0
    scaled_embedding: bool = True
    """Multiply token embeddings by √d_model (3.4 of the paper)."""
    tied_output: bool = True
    """The output projection is the token embedding, transposed."""
    output_bias: bool = False

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
