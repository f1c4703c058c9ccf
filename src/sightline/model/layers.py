"""The layer that all families stack: attention, feed-forward, residual connections and norms, and how weights start."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sightline.model.attention import Dropout, MultiHeadAttention
from sightline.model.cache import KeyValue, LayerCache
from sightline.model.config import Activation, BlockConfig
from sightline.model.context import AttentionContext
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.masks import Mask
from sightline.model.packing import Layout
from sightline.model.products import Linear

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x, inplace=True),  # safe in place: its input is the fresh output of a linear map
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "swiglu": F.silu,  # of the gate, see FeedForward
}


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, at each position separately (3.3); SwiGLU adds a gate."""

    def __init__(self, *, d_model: int, d_ff: int, activation: Activation = "relu", bias: bool = True) -> None:
        super().__init__()
        self.activation = activation
        self.up_proj = Linear(d_model, d_ff, bias=bias)
        self.gate_proj = Linear(d_model, d_ff, bias=bias) if activation == "swiglu" else None
        self.down_proj = Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*rows E"], hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows E"]:
        """Project up, apply the activation, project down."""
        wide = self.up_proj(x)  # … F
        activate = ACTIVATIONS[self.activation]
        hidden = activate(wide) if self.gate_proj is None else activate(self.gate_proj(x)) * wide
        return hooks("output", self.down_proj(hooks("hidden", hidden)))


def make_norm(config: BlockConfig, width: int | None = None) -> nn.Module:
    """Build the norm that this config asks for, of vectors of width d_model unless told otherwise."""
    width = config.d_model if width is None else width
    if config.norm == "rms":
        return nn.RMSNorm(width, eps=config.norm_eps)
    return nn.LayerNorm(width, eps=config.norm_eps, bias=config.resolve_bias(config.norm_bias))


def make_attention(config: BlockConfig) -> MultiHeadAttention:
    """Build the attention that this config asks for."""
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        qkv_bias=config.resolve_bias(config.qkv_bias),
        output_bias=config.resolve_bias(config.attention_output_bias),
        make_qk_norm=partial(make_norm, config) if config.qk_norm else None,
        dropout=config.attention_dropout,
    )


class Layer(nn.Module):
    """Self-attention, cross-attention in decoders, feed-forward; each as LayerNorm(x + Sublayer(x)) (3.1).

    With `pre_norm` the norm comes first: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: BlockConfig, *, cross: bool = False) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.dropout = Dropout(config.dropout)
        self.self_attention, self.self_attention_norm = make_attention(config), make_norm(config)
        self.cross_attention = make_attention(config) if cross else None
        self.cross_attention_norm = make_norm(config) if cross else None
        self.feed_forward = FeedForward(
            d_model=config.d_model,
            d_ff=config.d_ff,
            activation=config.activation,
            bias=config.resolve_bias(config.feed_forward_bias),
        )
        self.feed_forward_norm = make_norm(config)

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        context: AttentionContext,
        *,
        cross_kv: KeyValue | None = None,
        cross_mask: Mask | None = None,
        cache: LayerCache | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Pass x through the sublayers in order."""
        x = self.residual(
            self.self_attention, self.self_attention_norm, x, hooks.within("self_attention"),
            layout=context.layout, mask=context.mask, rotation=context.rotation, cache=cache,
        )  # fmt: skip
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            x = self.residual(
                self.cross_attention.cross_attend, self.cross_attention_norm, x, hooks.within("cross_attention"),
                layout=context.layout, cross_kv=cross_kv, mask=cross_mask,
            )  # fmt: skip
        return self.residual(self.feed_forward, self.feed_forward_norm, x, hooks.within("feed_forward"))

    def residual(
        self,
        sublayer: Callable[..., Tensor],
        norm: nn.Module,
        x: Float[Tensor, "*rows E"],
        hooks: NoHooks,
        **inputs: object,
    ) -> Float[Tensor, "*rows E"]:
        """Wrap a sublayer in residual connection, dropout and norm."""
        if self.pre_norm:
            normed = hooks("norm", norm(x))
            return hooks("residual", self.dropout.add(x, sublayer(normed, hooks=hooks, **inputs)))
        return hooks("norm", norm(hooks("residual", self.dropout.add(x, sublayer(x, hooks=hooks, **inputs)))))


class Stack(nn.Module):
    """N layers; pre-norm stacks end in a final norm, since nothing has normalized their residual sum."""

    def __init__(self, config: BlockConfig, *, n_layers: int, cross: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, cross=cross) for _ in range(n_layers))
        self.final_norm = make_norm(config) if config.pre_norm else None

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        context: AttentionContext,
        *,
        cross_kv: list[KeyValue] | None = None,
        cross_mask: Mask | None = None,
        caches: list[LayerCache] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Pass x through all layers."""
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                context,
                cross_kv=cross_kv[index] if cross_kv else None,
                cross_mask=cross_mask,
                cache=caches[index] if caches else None,
                hooks=hooks.within(index),
            )
        return x if self.final_norm is None else hooks("final_norm", self.final_norm(x))

    def project_cross_kv(self, encoder_output: Float[Tensor, "*rows E"], layout: Layout) -> list[KeyValue]:
        """Return every layer's keys and values of the encoder's output."""
        return [layer.cross_attention.project_cross_kv(encoder_output, layout) for layer in self.layers]  # type: ignore[union-attr, operator]


def initialize(model: nn.Module, *, embedding_std: float, linear: Callable[[Tensor], object]) -> None:
    """Initialize every embedding, linear map and norm; biases start at zero, norms at the identity.

    Linear maps are `glorot` in the paper's models, `small_normal` in BERT and GPT.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            linear(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]


def glorot(weight: Tensor) -> None:
    """Draw weights that preserve the variance of activations and gradients (Glorot & Bengio 2010)."""
    nn.init.xavier_uniform_(weight)


def small_normal(std: float = 0.02) -> Callable[[Tensor], object]:
    """Return the initializer of BERT and GPT-2: normal with a small standard deviation."""
    return lambda weight: nn.init.normal_(weight, std=std)


def shrink_residual_outputs(stack: nn.Module, *, n_sublayers: int) -> None:
    """Divide each sublayer's output weights by √n_sublayers, so that the residual sum keeps its scale (GPT-2, 2.3)."""
    for name, parameter in stack.named_parameters():
        if name.endswith(("attention.output.weight", "feed_forward.down_proj.weight")):
            parameter.data.div_(n_sublayers**0.5)
