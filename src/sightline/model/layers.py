"""The layer every family stacks: attention, feed-forward, and the residual connection and norm around each."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sightline.model.attention import MultiHeadAttention
from sightline.model.cache import KeyValue, LayerCache
from sightline.model.config import Activation, BlockConfig
from sightline.model.dropout import Dropout
from sightline.model.masks import Mask
from sightline.model.packing import Layout
from sightline.model.probe import IDLE, Idle
from sightline.model.sight import Sight

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x, inplace=True),  # its input, fresh from a linear map, is nobody else's
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "swiglu": F.silu,  # of the gate, see FeedForward
}


def make_norm(config: BlockConfig) -> nn.Module:
    """Return the norm this model uses."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_epsilon)
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon, bias=config.bias)


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between them, at each position by itself (3.3); SwiGLU adds a gate."""

    def __init__(self, *, d_model: int, d_ff: int, activation: Activation = "relu", bias: bool = True) -> None:
        super().__init__()
        self.activation = activation
        self.widen = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if activation == "swiglu" else None
        self.narrow = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*rows E"], probe: Idle = IDLE) -> Float[Tensor, "*rows E"]:
        """Widen, bend, narrow."""
        wide = self.widen(x)  # … F
        activate = ACTIVATIONS[self.activation]
        hidden = activate(wide) if self.gate is None else activate(self.gate(x)) * wide
        return probe("output", self.narrow(probe("hidden", hidden)))


class Layer(nn.Module):
    """Self-attention, cross-attention in decoders, feed-forward; each within LayerNorm(x + Sublayer(x)) (3.1).

    In the order "pre" the norm comes first instead: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: BlockConfig, *, cross: bool = False) -> None:
        super().__init__()
        self.norm_order = config.norm_order
        self.dropout = Dropout(config.dropout)
        self.self_attention, self.self_attention_norm = make_attention(config), make_norm(config)
        self.cross_attention = make_attention(config) if cross else None
        self.cross_attention_norm = make_norm(config) if cross else None
        self.feed_forward = FeedForward(
            d_model=config.d_model, d_ff=config.d_ff, activation=config.activation, bias=config.bias
        )
        self.feed_forward_norm = make_norm(config)

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        sight: Sight,
        *,
        memory: KeyValue | None = None,
        memory_mask: Mask | None = None,
        cache: LayerCache | None = None,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Pass x through the sublayers in order."""
        x = self.around(
            self.self_attention, self.self_attention_norm, x, probe.within("self_attention"),
            layout=sight.layout, mask=sight.mask, rotation=sight.rotation, cache=cache,
        )  # fmt: skip
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            x = self.around(
                self.cross_attention.across, self.cross_attention_norm, x, probe.within("cross_attention"),
                layout=sight.layout, memory=memory, mask=memory_mask,
            )  # fmt: skip
        return self.around(self.feed_forward, self.feed_forward_norm, x, probe.within("feed_forward"))

    def around(
        self,
        sublayer: Callable[..., Tensor],
        norm: nn.Module,
        x: Float[Tensor, "*rows E"],
        probe: Idle,
        **context: object,
    ) -> Float[Tensor, "*rows E"]:
        """Wrap a sublayer in residual connection, dropout and norm."""
        if self.norm_order == "pre":
            normed = probe("norm", norm(x))
            return probe("residual", self.dropout.add(x, sublayer(normed, probe=probe, **context)))
        return probe("norm", norm(probe("residual", self.dropout.add(x, sublayer(x, probe=probe, **context)))))


def make_attention(config: BlockConfig) -> MultiHeadAttention:
    """Return the attention this model uses."""
    return MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        bias=config.bias,
        dropout=config.attention_dropout,
    )


class Stack(nn.Module):
    """N layers; pre-norm stacks end in one more norm, since nothing has normed their sum."""

    def __init__(self, config: BlockConfig, *, n_layers: int, cross: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, cross=cross) for _ in range(n_layers))
        self.final_norm = make_norm(config) if config.norm_order == "pre" else None

    def forward(
        self,
        x: Float[Tensor, "*rows E"],
        sight: Sight,
        *,
        memory: list[KeyValue] | None = None,
        memory_mask: Mask | None = None,
        caches: list[LayerCache] | None = None,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Pass x through all layers."""
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                sight,
                memory=memory[index] if memory else None,
                memory_mask=memory_mask,
                cache=caches[index] if caches else None,
                probe=probe.within(index),
            )
        return x if self.final_norm is None else probe("final_norm", self.final_norm(x))

    def remember(self, memory: Float[Tensor, "*rows E"], layout: Layout) -> list[KeyValue]:
        """Return every layer's keys and values of the encoder's output."""
        return [layer.cross_attention.remember(memory, layout) for layer in self.layers]  # type: ignore[union-attr, operator]
