"""One token on its way through a layer: its vector at every station, as a strip of cells, with its size beside it."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.attention_matrix import frame
from sightline.tracing.figures.label import breadth, fitted, label
from sightline.tracing.figures.sheet import Sheet
from sightline.tracing.figures.style import (
    COLUMN,
    INK,
    LABEL,
    MARGIN,
    NUMBER,
    PAGE,
    QUERY,
    QUIET,
    SIGNED,
    SMALL,
    signed_scale,
)
from sightline.tracing.trace import Trace

LINE, STRIP, HEADING = 0.235, 0.155, 0.26
SIZE = 0.42
"""Inches for the size of a vector."""
DARKEST = 2.0
"""So many times the largest size a number is as dark as it gets: a few large ones must not make all others pale."""
SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
}


def size_of(vector: Float[np.ndarray, "E"]) -> float:
    """Return how large the numbers of a vector are: the root of the mean of their squares."""
    return float(np.sqrt(np.mean(np.square(vector.astype(np.float64)))))


def embedding_stations(trace: Trace, tower: str) -> dict[str, str]:
    """Return what becomes of an id, in words, and the probe of each."""
    point = f"{tower}.embedding"
    added = {"+ code of its position": f"{point}.positions"} if f"{point}.positions" in trace.probes else {}
    return {"embedding × √d": f"{point}.tokens", **added, "= what enters layer 0": f"{point}.output"}


def layer_stations(trace: Trace, tower: str, layer: int) -> dict[str, str]:
    """Return the stations of a layer in words, and the probe of each, in the order of its norms."""
    is_pre = trace.model.get("norm_order") == "pre"
    last = "residual" if is_pre else "norm"
    before = f"{tower}.{layer - 1}.feed_forward.{last}" if layer else f"{tower}.embedding.output"
    found = {"x, as it enters": before}
    for name, words in SUBLAYERS.items():
        point = f"{tower}.{layer}.{name}"
        if f"{point}.output" not in trace.probes:
            continue
        steps = {f"{words} says": f"{point}.output", f"x + {words}": f"{point}.residual"}
        norm = {f"norm, for {words}" if is_pre else f"norm, after {words}": f"{point}.norm"}
        found |= {**norm, **steps} if is_pre else {**steps, **norm}
    final = f"{tower}.final_norm"
    if final in trace.probes and f"{tower}.{layer + 1}.feed_forward.output" not in trace.probes:
        found["norm after the last layer"] = final
    return found


def stations(
    trace: Trace,
    *,
    tower: str = "encoder",
    layer: int | None = 0,
    row: int = 0,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the vector of one token at every station of a layer; without a layer, of the embedding."""
    names = embedding_stations(trace, tower) if layer is None else layer_stations(trace, tower, layer)
    if missing := [name for name in names.values() if name not in trace.probes]:
        raise InputError(f"this trace has no {missing[0]}: make it with probes=('*',)")
    tokens = trace.source.tokens if tower == "encoder" else trace.inputs.tokens
    if not 0 <= row < len(tokens):
        raise InputError(f"there is no row {row} here: {tower} has the rows 0 to {len(tokens) - 1}")
    vectors = {words: trace[name][row] for words, name in names.items()}
    reach = DARKEST * max(map(size_of, vectors.values()))
    place = "embedding" if layer is None else f"layer {layer}"
    notes = (
        f"{tower.capitalize()}, {place}, row {row}. Cells: brown below zero, green above, darkest from {reach:.2f} on. "
        "Size: root of the mean square."
    )
    sheet = Sheet(width, HEADING + LINE * len(vectors), title=title, notes=notes)
    beside = max(breadth(words, LABEL) for words in vectors) + 0.12
    strip = sheet.width - 2 * MARGIN - beside - SIZE
    of = fitted(label(tokens[row]), COLUMN / 2, LABEL)
    sheet.write(MARGIN + beside, sheet.top + HEADING / 2, f"“{of}”", size=LABEL, color=QUERY)
    sheet.write(sheet.width - MARGIN, sheet.top + HEADING / 2, "size", size=SMALL, color=QUIET, ha="right")
    for number, (words, vector) in enumerate(vectors.items()):
        y = sheet.top + HEADING + LINE * (number + 0.5)
        sheet.write(MARGIN + beside - 0.08, y, words, size=LABEL, color=INK, ha="right")
        axes = sheet.axes(MARGIN + beside, y - STRIP / 2, strip, STRIP)
        axes.imshow(vector[None], cmap=SIGNED, norm=signed_scale(reach), interpolation="none", aspect="auto")
        frame(axes, 1, len(vector))
        sheet.write(sheet.width - MARGIN, y, f"{size_of(vector):.2f}", size=NUMBER, ha="right")
    return sheet.figure
