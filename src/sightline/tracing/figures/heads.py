"""All heads of all layers at a glance: a grid of small matrices, one row per layer, one column per head."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sightline.tracing.figures.attention import (
    TITLES,
    attention_kind,
    group_attentions,
    layer_index,
    resolve_attention,
)
from sightline.tracing.figures.canvas import (
    BAR,
    LABEL,
    MARGIN,
    MAX_HEIGHT,
    PAGE,
    QUIET,
    SMALL,
    WEIGHTS,
    Canvas,
    draw_frame,
    figure_style,
    weight_scale,
)
from sightline.tracing.trace import Trace

MAX_SIDE, READABLE_SIDE = 1.6, 0.4
"""Inches of a small matrix: the maximum, and what it should have."""
MAX_CELLS = 60
"""Maximum rows or columns of a small matrix; longer ones are max-pooled."""
BETWEEN = 0.24
HEADING = 0.34
NUMBERS = 0.2
GAP = 0.12
"""Gap between two matrices, as a share of a cell."""


@figure_style()
def heads(trace: Trace, *, attention: str | None = None, title: str | None = None, width: int | float = PAGE) -> Figure:
    """Draw every head of every layer as a small matrix; `attention` (cross, decoder, encoder) selects one kind."""
    groups = group_attentions(trace)
    if attention is not None:
        part = attention_kind(resolve_attention(trace, attention=attention))
        groups = {part: groups[part]}
    order = [part for part in ("encoder", "decoder", "cross") if part in groups]
    n_heads = len(trace.attention(groups[order[0]][0]))
    cell, positions, height = arrange([len(groups[part]) for part in order], n_heads, width)
    n_tokens = max(max(trace.attention(name).shape[1:]) for names in groups.values() for name in names)
    every = math.ceil(n_tokens / MAX_CELLS)
    canvas = Canvas(width, height + 0.06 + BAR, title=title, notes=note(every))
    for part, (left, top) in zip(order, positions, strict=True):
        draw_group(canvas, trace, groups[part], left, canvas.top + top, cell, every)
    canvas.weight_bar(positions[0][0] + NUMBERS, canvas.bottom - BAR)
    return canvas.figure


def arrange(
    n_layers: Sequence[int], n_heads: int, width: int | float
) -> tuple[float, list[tuple[float, float]], float]:
    """Return the inches of a cell, the position of each group, and the total height: groups side by side if they stay
    readable, else stacked.
    """
    n, room = len(n_layers), width - 2 * MARGIN
    max_height = MAX_HEIGHT - BAR - HEADING
    beside = min((room - n * NUMBERS - (n - 1) * BETWEEN) / (n * n_heads), max_height / max(n_layers), MAX_SIDE)
    below = min((room - NUMBERS) / n_heads, (max_height - (n - 1) * HEADING) / sum(n_layers), MAX_SIDE)
    if beside >= min(READABLE_SIDE, below):
        group = NUMBERS + beside * n_heads
        left = (width - n * group - (n - 1) * BETWEEN) / 2
        positions = [(left + number * (group + BETWEEN), 0.0) for number in range(n)]
        return beside, positions, HEADING + beside * max(n_layers)
    left = (width - NUMBERS - below * n_heads) / 2
    tops = [HEADING * number + below * sum(n_layers[:number]) for number in range(n + 1)]
    return below, [(left, top) for top in tops[:-1]], tops[-1]


def draw_group(
    canvas: Canvas, trace: Trace, names: list[str], left: float, above: float, cell: float, every: int
) -> None:
    """Draw the heads of one kind of attention, all layers."""
    top, x = above + HEADING, left + NUMBERS
    numbers = trace.heads if trace.heads is not None else range(len(trace.attention(names[0])))
    heading = TITLES[attention_kind(names[0])]
    canvas.write(x, above + 0.09, heading.capitalize(), size=LABEL)
    size = min(SMALL, cell * 30)
    for column, head in enumerate(numbers):
        words = f"head {head}" if cell > 0.42 else str(head)
        canvas.write(x + cell * (column + 0.5 - GAP / 2), top - 0.06, words, size=size, color=QUIET, ha="center")
    for row, name in enumerate(names):
        y = top + cell * row
        words = f"layer {layer_index(name)}" if cell > 0.42 else str(layer_index(name))
        middle = y + cell * (1 - GAP) / 2
        canvas.write(
            x - 0.07,
            middle,
            words,
            size=size,
            color=QUIET,
            ha="center",
            va="center",
            rotation=90 if " " in words else 0,
        )
        for column, weights in enumerate(trace.attention(name)):
            axes = canvas.axes(x + cell * column, y, cell * (1 - GAP), cell * (1 - GAP))
            small = max_pool(weights, every)
            axes.imshow(small, cmap=WEIGHTS, norm=weight_scale(max(small.shape)), interpolation="none", aspect="auto")
            draw_frame(axes, *small.shape)


def max_pool(weights: Float[np.ndarray, "T S"], every: int) -> Float[np.ndarray, "rows columns"]:
    """Return the maximum over every block of rows and columns, so that no large weight is lost."""
    if every == 1 or not weights.size:
        return weights
    by_row = np.maximum.reduceat(weights, range(0, weights.shape[0], every), axis=0)
    smaller: np.ndarray = np.maximum.reduceat(by_row, range(0, weights.shape[1], every), axis=1)
    return smaller


def note(every: int) -> str:
    """Return the note that explains the small matrices."""
    text = "One row of matrices per layer, one column per head; in each, a row per query and a column per key."
    return text if every == 1 else f"{text} Each cell is the largest of {every} × {every} weights."
