"""The configs of all families: what every model has, what attention blocks add, and what each family adds."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.config import Checks

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "none"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What every model has, whatever it is made of."""

    vocab_size: int = field(metadata={"help": "vocabulary size: number of different tokens"})
    d_model: int = field(default=512, metadata={"help": "model width: size of the vector of each token"})
    dropout: float = field(
        default=0.1, metadata={"help": "dropout probability: share of activations zeroed during training"}
    )
    max_length: int | None = field(
        default=None,
        metadata={"help": "longest sequence in tokens; none: no limit (not possible with learned positions)"},
    )
    tie_embeddings: bool = field(
        default=True, metadata={"help": "share the weights of token embedding and output projection"}
    )
    output_bias: bool = field(default=False, metadata={"help": "bias in the output projection"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 4_000_000, vocab_size=self.vocab_size)
        checks.between(1, 65_536, d_model=self.d_model)
        checks.between(0, 0.99, dropout=self.dropout)
        if self.max_length is not None:
            checks.between(1, 16_777_216, max_length=self.max_length)
        self.check(checks)
        checks.done()

    def check(self, checks: Checks) -> None:
        """Note values out of range in the fields that a family adds."""

    @property
    def depth(self) -> int:
        """Layers of the deepest stack."""
        return 1

    @property
    def output_vocab_size(self) -> int:
        """Number of tokens that the model can predict."""
        return self.vocab_size

    @property
    def n_heads(self) -> int:
        """Attention heads of a layer; none in a model without attention."""
        return 0


@dataclass(frozen=True, kw_only=True)
class BlockConfig(ModelConfig):
    """Sizes and choices of attention blocks: `Transformer`, `Bert`, `GPT`; the defaults are the paper's."""

    n_heads: int = field(default=8, metadata={"help": "attention heads"})
    n_kv_heads: int | None = field(
        default=None,
        metadata={"help": "key and value heads, each shared by several query heads (GQA); none: as many as n_heads"},
    )
    d_ff: int = field(default=2048, metadata={"help": "feed-forward width"})
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
    rope_theta: float = field(default=10_000.0, metadata={"help": "base of the rotary position frequencies (RoPE)"})
    scale_embeddings: bool = field(
        default=True, metadata={"help": "multiply token embeddings by √d_model (3.4 of the paper)"}
    )

    def check(self, checks: Checks) -> None:
        """Note block settings out of range."""
        checks.between(1, 65_536, n_heads=self.n_heads)
        checks.between(1, 1_048_576, d_ff=self.d_ff)
        checks.between(0, 0.99, attention_dropout=self.attention_dropout)
        checks.between(1e-20, 1, norm_eps=self.norm_eps)
        checks.between(1, 1e12, rope_theta=self.rope_theta)
        if not checks.problems:
            self.check_heads(checks)
        checks.that(self.positions != "learned" or self.max_length is not None, "learned positions need max_length")

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

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """An encoder–decoder; the defaults are the paper's base model."""

    n_encoder_layers: int = field(default=6, metadata={"help": "encoder layers"})
    n_decoder_layers: int = field(default=6, metadata={"help": "decoder layers"})
    target_vocab_size: int | None = field(
        default=None,
        metadata={"help": "target vocabulary size; none: source and target share one vocabulary and embedding (3.4)"},
    )

    def check(self, checks: Checks) -> None:
        """Note layer counts and vocabulary sizes out of range."""
        super().check(checks)
        check_layers(checks, n_encoder_layers=self.n_encoder_layers, n_decoder_layers=self.n_decoder_layers)
        if self.target_vocab_size is not None:
            checks.between(1, 4_000_000, target_vocab_size=self.target_vocab_size)

    @property
    def depth(self) -> int:
        """Layers of the deeper stack."""
        return max(self.n_encoder_layers, self.n_decoder_layers)

    @property
    def output_vocab_size(self) -> int:
        """Size of the target vocabulary."""
        return self.target_vocab_size or self.vocab_size


Head = Literal["mlm", "nsp", "sequence_classification", "token_classification"]


@dataclass(frozen=True, kw_only=True)
class BertConfig(BlockConfig):
    """An encoder-only model; the defaults are BERT-base's, except attention dropout, which the fused kernel lacks."""

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = field(default=12, metadata={"help": "number of layers"})
    n_segments: int = field(
        default=2, metadata={"help": "segment types (token types): texts distinguished within one input"}
    )
    activation: Activation = "gelu"
    norm_eps: float = 1e-12
    positions: Positions = "learned"
    max_length: int | None = 512
    scale_embeddings: bool = False
    output_bias: bool = True
    heads: tuple[Head, ...] = field(default=("mlm", "nsp"), metadata={"help": "output heads"})
    n_classes: int = field(default=2, metadata={"help": "number of classes of the classification heads"})

    def check(self, checks: Checks) -> None:
        """Note counts out of range and repeated heads."""
        super().check(checks)
        check_layers(checks, n_layers=self.n_layers)
        checks.between(0, 1024, n_segments=self.n_segments)
        checks.between(1, 1_000_000, n_classes=self.n_classes)
        checks.that(len(set(self.heads)) == len(self.heads), "heads lists a head twice")

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.n_layers


@dataclass(frozen=True, kw_only=True)
class GPTConfig(BlockConfig):
    """A decoder-only model; the defaults are GPT-2 small's, except attention dropout, which the fused kernel lacks."""

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = field(default=12, metadata={"help": "number of layers"})
    activation: Activation = "gelu_tanh"
    pre_norm: bool = True
    positions: Positions = "learned"
    max_length: int | None = 1024
    scale_embeddings: bool = False

    def check(self, checks: Checks) -> None:
        """Note layer counts out of range."""
        super().check(checks)
        check_layers(checks, n_layers=self.n_layers)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.n_layers


def check_layers(checks: Checks, **counts: int) -> None:
    """Note layer counts out of range."""
    checks.between(1, 1024, **counts)
