"""All heads of all layers at a glance: a small matrix for each, layers downwards, heads across."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sightline.tracing.figures.attention_matrix import frame
from sightline.tracing.figures.sheet import BAR, Sheet
from sightline.tracing.figures.style import LABEL, MARGIN, PAGE, QUIET, SMALL, TALLEST, WEIGHTS, weight_scale
from sightline.tracing.figures.view import TITLES, chosen_name, layer_of, part_of, parts
from sightline.tracing.trace import Trace

LARGEST, READABLE = 1.6, 0.4
"""Inches of a small matrix: the most, and what it should have."""
FINEST = 60
"""Rows or columns of a small matrix; of more, the largest weights of some are shown together."""
BETWEEN = 0.24
HEADING = 0.34
NUMBERS = 0.2
GAP = 0.12
"""Of a cell, between two."""


def heads(trace: Trace, *, attention: str | None = None, title: str | None = None, width: int | float = PAGE) -> Figure:
    """Draw every head of every layer as a small matrix; `attention` (cross, decoder, encoder) chooses some layers."""
    groups = parts(trace)
    if attention is not None:
        part = part_of(chosen_name(trace, attention=attention))
        groups = {part: groups[part]}
    order = [part for part in ("encoder", "decoder", "cross") if part in groups]
    n_heads = len(trace.attention(groups[order[0]][0]))
    cell, places, height = arranged([len(groups[part]) for part in order], n_heads, width)
    longest = max(max(trace.attention(name).shape[1:]) for names in groups.values() for name in names)
    every = math.ceil(longest / FINEST)
    sheet = Sheet(width, height + 0.06 + BAR, title=title, notes=note(every))
    for part, (left, top) in zip(order, places, strict=True):
        draw_group(sheet, trace, groups[part], left, sheet.top + top, cell, every)
    sheet.weight_bar(places[0][0] + NUMBERS, sheet.bottom - BAR)
    return sheet.figure


def arranged(
    n_layers: Sequence[int], n_heads: int, width: int | float
) -> tuple[float, list[tuple[float, float]], float]:
    """Return the inches of a cell, where each group stands, and how high they are: side by side if they can be read so,
    else one below the other.
    """
    n, room = len(n_layers), width - 2 * MARGIN
    tallest = TALLEST - BAR - HEADING
    beside = min((room - n * NUMBERS - (n - 1) * BETWEEN) / (n * n_heads), tallest / max(n_layers), LARGEST)
    below = min((room - NUMBERS) / n_heads, (tallest - (n - 1) * HEADING) / sum(n_layers), LARGEST)
    if beside >= min(READABLE, below):
        group = NUMBERS + beside * n_heads
        left = (width - n * group - (n - 1) * BETWEEN) / 2
        places = [(left + number * (group + BETWEEN), 0.0) for number in range(n)]
        return beside, places, HEADING + beside * max(n_layers)
    left = (width - NUMBERS - below * n_heads) / 2
    tops = [HEADING * number + below * sum(n_layers[:number]) for number in range(n + 1)]
    return below, [(left, top) for top in tops[:-1]], tops[-1]


def draw_group(
    sheet: Sheet, trace: Trace, names: list[str], left: float, above: float, cell: float, every: int
) -> None:
    """Draw the heads of one attention of all layers."""
    top, x = above + HEADING, left + NUMBERS
    numbers = trace.heads if trace.heads is not None else range(len(trace.attention(names[0])))
    heading = TITLES[part_of(names[0])]
    sheet.write(x, above + 0.09, heading.capitalize(), size=LABEL)
    size = min(SMALL, cell * 30)
    for place, head in enumerate(numbers):
        words = f"head {head}" if cell > 0.42 else str(head)
        sheet.write(x + cell * (place + 0.5 - GAP / 2), top - 0.06, words, size=size, color=QUIET, ha="center")
    for row, name in enumerate(names):
        y = top + cell * row
        words = f"layer {layer_of(name)}" if cell > 0.42 else str(layer_of(name))
        middle = y + cell * (1 - GAP) / 2
        sheet.write(
            x - 0.07,
            middle,
            words,
            size=size,
            color=QUIET,
            ha="center",
            va="center",
            rotation=90 if " " in words else 0,
        )
        for place, weights in enumerate(trace.attention(name)):
            axes = sheet.axes(x + cell * place, y, cell * (1 - GAP), cell * (1 - GAP))
            small = pooled(weights, every)
            axes.imshow(small, cmap=WEIGHTS, norm=weight_scale(max(small.shape)), interpolation="none", aspect="auto")
            frame(axes, *small.shape)


def pooled(weights: Float[np.ndarray, "T S"], every: int) -> Float[np.ndarray, "rows columns"]:
    """Return the largest of every so many rows and columns, so that no strong weight is lost when it is made small."""
    if every == 1 or not weights.size:
        return weights
    by_row = np.maximum.reduceat(weights, range(0, weights.shape[0], every), axis=0)
    smaller: np.ndarray = np.maximum.reduceat(by_row, range(0, weights.shape[1], every), axis=1)
    return smaller


def note(every: int) -> str:
    """Return how the small matrices are to be read."""
    text = "Layers downwards, heads across; in each a row for each token that looks, a column for each it looks at."
    return text if every == 1 else f"{text} Each point is the largest of {every} × {every} weights."
