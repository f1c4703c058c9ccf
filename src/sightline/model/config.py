"""The configs of all families: what every model has, what attention blocks add, and what each family adds."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.config import Checks

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
Pooling = Literal["first", "mean"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "none"]
RopeScaling = Literal["none", "linear", "llama3", "yarn"]


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
class Rope:
    """Everything that the rotations of rotary positions depend on: the `rope_` settings of a `BlockConfig`."""

    d_head: int
    theta: float = 10_000.0
    scaling: RopeScaling = "none"
    factor: float = 1.0
    original_max_length: int | None = None
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class BlockConfig(ModelConfig):
    """Sizes and choices of attention blocks: `Transformer`, `Bert`, `GPT`; the defaults are the paper's."""

    n_heads: int = field(default=8, metadata={"help": "attention heads"})
    n_kv_heads: int | None = field(
        default=None,
        metadata={"help": "key and value heads, each shared by several query heads (GQA); none: as many as n_heads"},
    )
    d_head: int | None = field(
        default=None,
        metadata={"help": "head width: size of the queries, keys and values of one head; none: d_model / n_heads"},
    )
    d_ff: int = field(default=2048, metadata={"help": "feed-forward width"})
    token_dropout: float = field(
        default=0.0,
        metadata={
            "help": "token dropout probability: share of tokens, special ones too, whose vectors are zeroed in training"
        },
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
    bias: bool = field(
        default=True,
        metadata={"help": "bias in linear layers and norms, except where qkv_bias, …, norm_bias say otherwise"},
    )
    qkv_bias: bool | None = field(
        default=None, metadata={"help": "bias in the query, key and value projections; none: as bias"}
    )
    attention_output_bias: bool | None = field(
        default=None, metadata={"help": "bias in the output projection of attention; none: as bias"}
    )
    feed_forward_bias: bool | None = field(
        default=None, metadata={"help": "bias in the feed-forward layers; none: as bias"}
    )
    norm_bias: bool | None = field(
        default=None, metadata={"help": "bias in layer norms (rms norms never have one); none: as bias"}
    )
    qk_norm: bool = field(
        default=False,
        metadata={"help": "q/k norm: normalize the queries and keys of each head, before they are rotated"},
    )
    positions: Positions = field(default="sinusoidal", metadata={"help": "position encoding"})
    rope_theta: float = field(default=10_000.0, metadata={"help": "base of the rotary position frequencies (RoPE)"})
    rope_scaling: RopeScaling = field(
        default="none",
        metadata={
            "help": "RoPE scaling for longer texts than first trained on: linear (position interpolation) divides all "
            "frequencies by rope_factor, llama3 and yarn only the low ones"
        },
    )
    rope_factor: float = field(
        default=1.0, metadata={"help": "factor of rope_scaling: how many times longer texts may become"}
    )
    rope_original_max_length: int | None = field(
        default=None,
        metadata={"help": "longest sequence before rope_scaling, in tokens; needed by llama3 and yarn"},
    )
    rope_low_freq_factor: float = field(
        default=1.0,
        metadata={"help": "llama3 scaling: frequencies of fewer turns in rope_original_max_length are divided in full"},
    )
    rope_high_freq_factor: float = field(
        default=4.0,
        metadata={"help": "llama3 scaling: frequencies of more turns in rope_original_max_length stay as they are"},
    )
    rope_beta_fast: float = field(
        default=32.0,
        metadata={"help": "yarn scaling: frequencies of more turns in rope_original_max_length stay as they are"},
    )
    rope_beta_slow: float = field(
        default=1.0,
        metadata={"help": "yarn scaling: frequencies of fewer turns in rope_original_max_length are divided in full"},
    )
    rope_truncate: bool = field(
        default=True,
        metadata={"help": "yarn scaling: round the range between rope_beta_fast and rope_beta_slow to dimensions"},
    )
    rope_attention_factor: float | None = field(
        default=None,
        metadata={"help": "yarn scaling: factor of rotated queries and of rotated keys; none: 0.1 ln(rope_factor) + 1"},
    )
    scale_embeddings: bool = field(
        default=True, metadata={"help": "multiply token embeddings by √d_model (3.4 of the paper)"}
    )

    def check(self, checks: Checks) -> None:
        """Note block settings out of range."""
        checks.between(1, 65_536, n_heads=self.n_heads)
        if self.d_head is not None:
            checks.between(1, 65_536, d_head=self.d_head)
        checks.between(1, 1_048_576, d_ff=self.d_ff)
        checks.between(0, 0.99, attention_dropout=self.attention_dropout, token_dropout=self.token_dropout)
        checks.between(1e-20, 1, norm_eps=self.norm_eps)
        checks.between(1, 1e12, rope_theta=self.rope_theta)
        if not checks.problems:
            self.check_heads(checks)
        checks.that(self.positions != "learned" or self.max_length is not None, "learned positions need max_length")
        checks.that(not (self.norm == "rms" and self.norm_bias), "rms norms have no bias: leave norm_bias out")
        self.check_rope_scaling(checks)

    def check_heads(self, checks: Checks) -> None:
        """Note head counts and widths that do not divide evenly."""
        checks.that(
            self.d_head is not None or self.d_model % self.n_heads == 0,
            f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}: change one, or set d_head",
        )
        groups = self.n_heads if self.n_kv_heads is None else self.n_kv_heads
        checks.that(
            groups > 0 and self.n_heads % groups == 0,
            f"n_heads {self.n_heads} is not a multiple of n_kv_heads {groups}",
        )
        if self.positions == "rope":
            checks.that(self.head_width % 2 == 0, f"rotary positions need an even head width, not {self.head_width}")
        elif self.positions.startswith("sinusoidal"):
            checks.that(self.d_model % 2 == 0, f"sinusoidal positions need an even d_model, not {self.d_model}")

    def check_rope_scaling(self, checks: Checks) -> None:
        """Note settings of RoPE scaling that are out of range, missing, or without effect."""
        scaling = self.rope_scaling
        checks.between(1, 1_000_000, rope_factor=self.rope_factor)
        factors = {name: getattr(self, name) for name in ROPE_FACTORS}
        checks.between(0.001, 1_000_000, **{name: value for name, value in factors.items() if value is not None})
        if self.rope_original_max_length is not None:
            checks.between(1, 16_777_216, rope_original_max_length=self.rope_original_max_length)
        if scaling == "none":
            checks.that(self.rope_factor == 1, f"rope_factor {self.rope_factor:g} has no effect: set rope_scaling too")
            return
        checks.that(self.positions == "rope", f"rope_scaling {scaling} needs positions rope, not {self.positions}")
        if scaling == "linear":
            return
        checks.that(self.rope_original_max_length is not None, f"rope_scaling {scaling} needs rope_original_max_length")
        low, high = ("rope_low_freq_factor", "rope_high_freq_factor")
        if scaling == "yarn":
            low, high = ("rope_beta_slow", "rope_beta_fast")
            checks.that(self.rope_theta > 1, "rope_scaling yarn needs a rope_theta above 1")
        checks.that(factors[low] < factors[high], f"{low} {factors[low]:g} must be below {high} {factors[high]:g}")

    @property
    def head_width(self) -> int:
        """Width of one head: `d_head`, or what follows from d_model."""
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    def resolve_bias(self, setting: bool | None) -> bool:
        """Return one of the four settings of single biases; where it is none, `bias`."""
        return self.bias if setting is None else setting

    @property
    def rope(self) -> Rope:
        """What rotary positions depend on."""
        return Rope(
            d_head=self.head_width,
            theta=self.rope_theta,
            scaling=self.rope_scaling,
            factor=self.rope_factor,
            original_max_length=self.rope_original_max_length,
            low_freq_factor=self.rope_low_freq_factor,
            high_freq_factor=self.rope_high_freq_factor,
            beta_fast=self.rope_beta_fast,
            beta_slow=self.rope_beta_slow,
            truncate=self.rope_truncate,
            attention_factor=self.rope_attention_factor,
        )


ROPE_FACTORS = (
    "rope_low_freq_factor",
    "rope_high_freq_factor",
    "rope_beta_fast",
    "rope_beta_slow",
    "rope_attention_factor",
)
"""Settings of RoPE scaling that are positive numbers."""


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
    embedding_norm: bool = field(
        default=True,
        metadata={"help": "normalize embeddings before the first layer; if not, their lengths can differ"},
    )
    heads: tuple[Head, ...] = field(default=("mlm", "nsp"), metadata={"help": "output heads"})
    n_classes: int = field(default=2, metadata={"help": "number of classes of the classification heads"})
    pooling: Pooling = field(
        default="first",
        metadata={"help": "vector of a whole text: that of its first token, [CLS], or the mean of all its tokens"},
    )

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
