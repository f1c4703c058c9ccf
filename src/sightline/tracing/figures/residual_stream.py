"""The residual stream of one token through a layer: its vector at every stage as a strip of cells, with its RMS."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.canvas import (
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
    Canvas,
    draw_frame,
    figure_style,
    fit_text,
    signed_scale,
    text_width,
    token_label,
)
from sightline.tracing.trace import Trace

LINE, STRIP, HEADING = 0.235, 0.155, 0.26
RMS_WIDTH = 0.42
"""Inches for the RMS of a vector."""
MAX_COLOR_RMS = 2.0
"""The color scale ends at this multiple of the largest RMS: a few large numbers must not make all others pale."""
SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
}


def rms(vector: Float[np.ndarray, "E"]) -> float:
    """Return the root mean square of a vector."""
    return float(np.sqrt(np.mean(np.square(vector.astype(np.float64)))))


def embedding_stages(trace: Trace, tower: str) -> dict[str, str]:
    """Return the stages of the embedding: their labels and hook points."""
    point = f"{tower}.embedding"
    added = {"+ code of its position": f"{point}.positions"} if f"{point}.positions" in trace.activations else {}
    return {"embedding × √d": f"{point}.tokens", **added, "= what enters layer 0": f"{point}.output"}


def layer_stages(trace: Trace, tower: str, layer: int) -> dict[str, str]:
    """Return the stages of a layer in the order they are computed: their labels and hook points."""
    pre_norm = bool(trace.model.get("pre_norm"))
    last = "residual" if pre_norm else "norm"
    before = f"{tower}.{layer - 1}.feed_forward.{last}" if layer else f"{tower}.embedding.output"
    found = {"x, as it enters": before}
    for name, words in SUBLAYERS.items():
        point = f"{tower}.{layer}.{name}"
        if f"{point}.output" not in trace.activations:
            continue
        steps = {f"{words} says": f"{point}.output", f"x + {words}": f"{point}.residual"}
        norm = {f"norm, for {words}" if pre_norm else f"norm, after {words}": f"{point}.norm"}
        found |= {**norm, **steps} if pre_norm else {**steps, **norm}
    final = f"{tower}.final_norm"
    if final in trace.activations and f"{tower}.{layer + 1}.feed_forward.output" not in trace.activations:
        found["final norm"] = final
    return found


@figure_style()
def residual_stream(
    trace: Trace,
    *,
    tower: str = "encoder",
    layer: int | None = 0,
    row: int = 0,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the vector of one token at every stage of a layer; without a layer, of the embedding."""
    names = embedding_stages(trace, tower) if layer is None else layer_stages(trace, tower, layer)
    if missing := [name for name in names.values() if name not in trace.activations]:
        raise InputError(f"this trace has no {missing[0]}: trace with activations=('*',)")
    tokens = trace.source.tokens if tower == "encoder" else trace.inputs.tokens
    if not 0 <= row < len(tokens):
        raise InputError(f"this trace has no row {row}: the {tower} has the rows 0 to {len(tokens) - 1}")
    vectors = {words: trace[name][row] for words, name in names.items()}
    limit = MAX_COLOR_RMS * max(map(rms, vectors.values()))
    stage = "embedding" if layer is None else f"layer {layer}"
    notes = (
        f"{tower.capitalize()}, {stage}, row {row}. Cells: brown below zero, green above, darkest from {limit:.2f} on. "
        "RMS: root mean square."
    )
    canvas = Canvas(width, HEADING + LINE * len(vectors), title=title, notes=notes)
    beside = max(text_width(words, LABEL) for words in vectors) + 0.12
    strip = canvas.width - 2 * MARGIN - beside - RMS_WIDTH
    token = fit_text(token_label(tokens[row]), COLUMN / 2, LABEL)
    canvas.write(MARGIN + beside, canvas.top + HEADING / 2, f"“{token}”", size=LABEL, color=QUERY)
    canvas.write(canvas.width - MARGIN, canvas.top + HEADING / 2, "RMS", size=SMALL, color=QUIET, ha="right")
    for number, (words, vector) in enumerate(vectors.items()):
        y = canvas.top + HEADING + LINE * (number + 0.5)
        canvas.write(MARGIN + beside - 0.08, y, words, size=LABEL, color=INK, ha="right")
        axes = canvas.axes(MARGIN + beside, y - STRIP / 2, strip, STRIP)
        axes.imshow(vector[None], cmap=SIGNED, norm=signed_scale(limit), interpolation="none", aspect="auto")
        draw_frame(axes, 1, len(vector))
        canvas.write(canvas.width - MARGIN, y, f"{rms(vector):.2f}", size=NUMBER, ha="right")
    return canvas.figure
