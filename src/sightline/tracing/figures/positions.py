"""Position encodings: the matrix position × dimension, curves of some dimensions, and the similarity of positions.

They come from a model or from a trace. Rotary embeddings, which rotate queries and keys instead of adding a vector, are
shown as the sines and cosines of their angles.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.errors import InputError
from sightline.model import Model
from sightline.tracing.figures.canvas import (
    INK,
    LABEL,
    PAGE,
    POSITION,
    QUIET,
    SIGNED,
    Canvas,
    figure_style,
    signed_scale,
)
from sightline.tracing.trace import Trace
from sightline.tracing.vectors import HasModel, cosine_similarities, position_encodings, sinusoids

POSITIONS = 64
"""Positions shown by default."""
MAX_CURVE_POSITIONS = 64
"""Positions over which curves are drawn."""
CURVES = ((POSITION, "-"), (INK, (0, (5, 1.5))), ("#a8b03a", (0, (1.2, 1.2))), (QUIET, (0, (5, 1.5, 1.2, 1.5))))
"""Colors and line styles, distinct in grayscale too."""
HEIGHT = 3.5


def trace_encodings(trace: Trace) -> Float[np.ndarray, "T E"]:
    """Return the position encodings that were added in a trace, one for each token."""
    for name in trace.names:
        if name.endswith(".embedding.positions"):
            return trace[name]
    width, kind = trace.model.get("d_model"), str(trace.model.get("positions"))
    if kind.startswith("sinusoidal") and isinstance(width, int):
        return sinusoids(POSITIONS, width, kind=kind)
    raise InputError("this trace has no position encodings: trace with activations=('*.embedding.positions',)")


def rotary_note(drawn_from: Trace | Model | HasModel) -> str:
    """Return the note on encodings that are not added to the embedding."""
    if isinstance(drawn_from, Trace):
        return ""
    model = drawn_from if isinstance(drawn_from, Model) else drawn_from.model
    is_rotary = getattr(model.config, "positions", "none") == "rope"
    return "Sines and cosines of the angles by which queries and keys are rotated. " if is_rotary else ""


def default_dimensions(width: int) -> list[int]:
    """Return the dimensions to draw as curves: a fast wave, a slow one, and two between."""
    return sorted({min(width - 1, int(width * share)) & ~1 for share in (0.0, 0.14, 0.28, 0.5)})


@figure_style()
def positions(
    drawn_from: Trace | Model | HasModel,
    *,
    n: int = POSITIONS,
    dimensions: Sequence[int] | None = None,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the position encodings of a model, a pipeline, or a trace."""
    encodings = trace_encodings(drawn_from) if isinstance(drawn_from, Trace) else position_encodings(drawn_from, n=n)
    n_positions, n_dimensions = encodings.shape
    curves = default_dimensions(n_dimensions) if dimensions is None else list(dimensions)
    if missing := [dimension for dimension in curves if not 0 <= dimension < n_dimensions]:
        raise InputError(f"there is no dimension {missing[0]}: they are numbered from 0 to {n_dimensions - 1}")
    notes = f"{rotary_note(drawn_from)}The first {n_positions} positions, {n_dimensions} dimensions. "
    notes += "Similarity: cosine of the angle between two encodings."
    limit = float(np.abs(encodings).max())
    notes += "" if 0.95 < limit <= 1 else f" The colors of the matrix range from −{limit:.3g} to {limit:.3g}."
    canvas = Canvas(width, HEIGHT, title=title, notes=notes)
    left, gap, bar = 0.42, 0.62, 0.42
    square = 1.42
    wide = width - left - gap - square - bar - 0.12
    top, height = canvas.top + 0.2, HEIGHT - 0.2 - 0.42
    matrix = canvas.axes(left, top, wide, height, bare=False)
    draw_matrix(matrix, encodings)
    x = left + wide + gap
    similarity = canvas.axes(x, top, square, square, bare=False)
    draw_similarity(similarity, encodings)
    y = top + square + 0.56
    curve_axes = canvas.axes(x, y, square, top + height - y, bare=False)
    draw_curves(curve_axes, encodings, curves)
    heading(matrix, "position × dimension")
    heading(similarity, "similarity of positions")
    heading(
        curve_axes,
        "some dimensions" if n_positions <= MAX_CURVE_POSITIONS else f"some dimensions, first {MAX_CURVE_POSITIONS}",
    )
    draw_scale(canvas, x + square + 0.1, top, square)
    return canvas.figure


def draw_matrix(axes: Axes, encodings: Float[np.ndarray, "T E"]) -> None:
    """Draw all encodings, a row for each position."""
    limit = float(np.abs(encodings).max())
    axes.imshow(encodings, cmap=SIGNED, norm=signed_scale(limit), interpolation="none", aspect="auto")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # no fractional ticks, however few dimensions
    axes.set_xlabel("dimension")
    axes.set_ylabel("position")


def draw_similarity(axes: Axes, encodings: Float[np.ndarray, "T E"]) -> None:
    """Draw the cosine similarity of every two positions."""
    axes.imshow(
        cosine_similarities(encodings), cmap=SIGNED, norm=signed_scale(1.0), interpolation="none", aspect="auto"
    )
    axes.set_xlabel("position")
    axes.set_ylabel("position")


def draw_curves(axes: Axes, encodings: Float[np.ndarray, "T E"], dimensions: Sequence[int]) -> None:
    """Draw some dimensions over the first positions: over many, fast waves would fill the plot."""
    encodings = encodings[:MAX_CURVE_POSITIONS]
    for number, dimension in enumerate(dimensions):
        color, style = CURVES[number % len(CURVES)]
        axes.plot(encodings[:, dimension], color=color, linestyle=style, linewidth=1.0, label=f"{dimension}")
    axes.set_xlim(0, max(1, len(encodings) - 1))
    axes.set_xlabel("position")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=LABEL - 1, handlelength=1.5,
        handletextpad=0.4, borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip


def draw_scale(canvas: Canvas, x: float, top: float, height: float) -> None:
    """Draw the color bar."""
    axes = canvas.axes(x, top, 0.08, height, bare=False)
    axes.imshow(
        np.linspace(1, -1, 128)[:, None], cmap=SIGNED, norm=signed_scale(1.0), aspect="auto", interpolation="none",
        extent=(0, 1, -1, 1),
    )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([-1, 0, 1], ["−1", "0", "1"])
    axes.yaxis.tick_right()


def heading(axes: Axes, text: str) -> None:
    """Write the heading of a panel."""
    axes.set_title(text, fontsize=LABEL, color=QUIET, loc="left", pad=3, parse_math=False)
