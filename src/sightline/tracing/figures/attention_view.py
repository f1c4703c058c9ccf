"""One attention of a trace as a matrix with its tokens: one head of it, or the mean of all."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from sightline.errors import InputError
from sightline.tracing.tokenized_text import Token, Word
from sightline.tracing.trace import Trace

AxisLabels: TypeAlias = tuple[Token, ...] | tuple[Word, ...]
"""The labels of the rows or columns of a matrix."""

TITLES = {
    "cross": "cross-attention",
    "decoder": "decoder self-attention",
    "encoder": "encoder self-attention",
}
"""The kinds of attention a model may have, the one to show first coming first."""
ROLES = {
    "cross": ("target", "source"),
    "decoder": ("query", "key"),
    "encoder": ("query", "key"),
}
"""What the rows and the columns are."""


@dataclass(frozen=True)
class AttentionView:
    """Attention weights of queries (rows) over keys (columns)."""

    name: str
    """For example `decoder.1.cross_attention`."""
    head: int | None
    """None: the mean of all."""
    weights: Float[np.ndarray, "T S"]
    rows: AxisLabels
    columns: AxisLabels
    n_heads: int

    @property
    def caption(self) -> str:
        """Caption of the figure."""
        which = f"head {self.head}" if self.head is not None else f"mean of {self.n_heads} heads"
        return f"{describe(self.name)}, {which if self.n_heads > 1 or self.head is not None else 'the only head'}"

    @property
    def roles(self) -> tuple[str, str]:
        """What the rows and the columns are."""
        return ROLES[attention_kind(self.name)]


def attention_kind(name: str) -> str:
    """Return the kind of an attention: cross, decoder or encoder."""
    return "cross" if "cross_attention" in name else name.partition(".")[0]


def layer_index(name: str) -> int:
    """Return the layer of an attention."""
    return int(name.split(".")[1])


def describe(name: str) -> str:
    """Return the name of an attention in words."""
    return f"{TITLES[attention_kind(name)]} of layer {layer_index(name)}".capitalize()


def group_attentions(trace: Trace) -> dict[str, list[str]]:
    """Return the attentions of a trace by kind, layers in order."""
    found: dict[str, list[str]] = {}
    for kind in TITLES:
        if names := sorted((name for name in trace.attentions if attention_kind(name) == kind), key=layer_index):
            found[kind] = names
    if not found:
        raise InputError("this trace has no attention weights: trace with activations=('*.weights',)")
    return found


def resolve_attention(trace: Trace, *, attention: str | None = None, layer: int | None = None) -> str:
    """Return the name of the attention given by kind (or full name) and layer; by default the last layer."""
    found = group_attentions(trace)
    if attention is not None and attention.removesuffix(".weights") in trace.attentions:
        return attention.removesuffix(".weights")
    kind = next(iter(found)) if attention is None else attention
    if kind not in found:
        raise InputError(f"this trace has no attention {kind[:60]!r}: choose one of {', '.join(found)}")
    layers = {layer_index(name): name for name in found[kind]}
    number = max(layers) if layer is None else layer
    if number not in layers:
        raise InputError(
            f"this trace has no layer {number}: {TITLES[kind]} has the layers {format_numbers(list(layers))}"
        )
    return layers[number]


def head_index(trace: Trace, name: str, head: int) -> int:
    """Return the index of a head in the arrays of a trace, which may hold only some heads."""
    n_kept = len(trace.attention(name))
    heads = list(trace.heads) if trace.heads is not None else list(range(n_kept))
    if head not in heads:
        raise InputError(f"this trace has no head {head}: it has the heads {format_numbers(heads)}")
    return heads.index(head)


def select_attention(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> AttentionView:
    """Return one attention of a trace, between tokens or between words: one head, or the mean of all."""
    name = resolve_attention(trace, attention=attention, layer=layer)
    index = None if head is None else head_index(trace, name, head)
    rows: AxisLabels
    columns: AxisLabels
    if words:
        by_word = trace.words()
        weights, rows, columns = by_word.attention[name], *by_word.axes(name)
    else:
        weights, rows, columns = trace.attention(name), *trace.axes(name)
    if not weights.size:
        raise InputError(f"{name} has no weights: the text is empty")
    matrix = weights.mean(axis=0) if index is None else weights[index]
    return AttentionView(name, head, matrix, rows, columns, n_heads=len(weights))


def format_numbers(numbers: list[int]) -> str:
    """Return numbers as "0 to 5" if they have no gap, else one by one."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
