"""One attention of a trace as a matrix with its tokens: one head of it, or the mean of all."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from sightline.errors import InputError
from sightline.tracing.passage import Token, Word
from sightline.tracing.trace import Trace

Marks: TypeAlias = tuple[Token, ...] | tuple[Word, ...]
"""What stands beside a matrix."""

PARTS = {"cross": "cross_attention", "decoder": "decoder", "encoder": "encoder"}
"""The attentions a model may have, the one to show first coming first; cross-attention is not called the decoder's."""
TITLES = {
    "cross": "cross-attention",
    "decoder": "decoder self-attention",
    "encoder": "encoder self-attention",
}
ROLES = {
    "cross": ("written", "source"),
    "decoder": ("looks", "looked at"),
    "encoder": ("looks", "looked at"),
}
"""What stands at the rows and at the columns."""


@dataclass(frozen=True)
class View:
    """Weights of who looks (rows) at what (columns)."""

    name: str
    """As `decoder.1.cross_attention`."""
    head: int | None
    """None: the mean of all."""
    weights: Float[np.ndarray, "T S"]
    rows: Marks
    columns: Marks
    n_heads: int

    @property
    def caption(self) -> str:
        """What is shown, in words."""
        which = f"head {self.head}" if self.head is not None else f"mean of {self.n_heads} heads"
        return f"{described(self.name)}, {which if self.n_heads > 1 or self.head is not None else 'its one head'}"

    @property
    def roles(self) -> tuple[str, str]:
        """What the rows and the columns are."""
        return ROLES[part_of(self.name)]


def part_of(name: str) -> str:
    """Return which of the model's attentions this is: cross, decoder or encoder."""
    return "cross" if "cross_attention" in name else name.partition(".")[0]


def layer_of(name: str) -> int:
    """Return the number of its layer."""
    return int(name.split(".")[1])


def described(name: str) -> str:
    """Return the name of an attention in words."""
    return f"{TITLES[part_of(name)]} of layer {layer_of(name)}".capitalize()


def parts(trace: Trace) -> dict[str, list[str]]:
    """Return the attentions a trace holds by their part of the model, layers in order."""
    found: dict[str, list[str]] = {}
    for part in PARTS:
        if names := sorted((name for name in trace.attentions if part_of(name) == part), key=layer_of):
            found[part] = names
    if not found:
        raise InputError("this trace holds no attention weights: make it with probes=('*.weights',)")
    return found


def chosen_name(trace: Trace, *, attention: str | None = None, layer: int | None = None) -> str:
    """Return the attention that is meant by a part of the model (or its whole name) and a layer; else the last."""
    found = parts(trace)
    if attention is not None and attention.removesuffix(".weights") in trace.attentions:
        return attention.removesuffix(".weights")
    part = next(iter(found)) if attention is None else attention
    if part not in found:
        raise InputError(f"there is no attention {part[:60]!r} here: it is one of {', '.join(found)}")
    layers = {layer_of(name): name for name in found[part]}
    number = max(layers) if layer is None else layer
    if number not in layers:
        raise InputError(f"there is no layer {number} here: {TITLES[part]} has the layers {spelled(list(layers))}")
    return layers[number]


def place_of(trace: Trace, name: str, head: int) -> int:
    """Return the place of a head in the arrays of a trace, which may hold some heads only."""
    n_kept = len(trace.attention(name))
    heads = list(trace.heads) if trace.heads is not None else list(range(n_kept))
    if head not in heads:
        raise InputError(f"there is no head {head} here: the heads are {spelled(heads)}")
    return heads.index(head)


def view(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> View:
    """Return an attention of a trace, token by token or word by word."""
    name = chosen_name(trace, attention=attention, layer=layer)
    place = None if head is None else place_of(trace, name, head)
    rows: Marks
    columns: Marks
    if words:
        by_word = trace.words()
        weights, rows, columns = by_word.attention[name], *by_word.axes(name)
    else:
        weights, rows, columns = trace.attention(name), *trace.axes(name)
    if not weights.size:
        raise InputError(f"{name} has nothing to look at: the text is empty")
    matrix = weights.mean(axis=0) if place is None else weights[place]
    return View(name, head, matrix, rows, columns, n_heads=len(weights))


def spelled(numbers: list[int]) -> str:
    """Return numbers as 0 to 5 where they are without a gap, else one by one."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
