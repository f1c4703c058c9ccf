"""One attention as lines between words: keys on the left, queries on the right, thicker lines for larger weights."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.path import Path

from sightline.tracing.figures.attention_matrix import thinning_note, write
from sightline.tracing.figures.attention_view import AttentionView, select_attention
from sightline.tracing.figures.canvas import Canvas
from sightline.tracing.figures.label import fit_labels, fit_text, label, max_text_width, text_width
from sightline.tracing.figures.style import (
    COLUMN,
    INK,
    LABEL,
    LINES,
    MARGIN,
    MAX_HEIGHT,
    QUIET,
    SMALL,
    figure_style,
    weight_scale,
)
from sightline.tracing.tokenized_text import Token, Word
from sightline.tracing.trace import Trace

MIN_WEIGHT = 0.05
"""Smaller weights are not drawn, unless they are the largest of their query."""
PITCH = 0.175
"""Inches from token to token, if there is room."""
MIN_PITCH = 0.115
"""Inches at which every token can still be labeled."""
HEADING = 0.2
MAX_LABEL_WIDTH = 1.05
PAD = 0.06
MIN_LINE_WIDTH, LINE_WIDTH_PER_WEIGHT = 0.35, 3.2
NOTE = f"Lines: weights of at least {MIN_WEIGHT:g}, and the largest of each query; thicker is larger."


class LinesPanel:
    """Two columns of tokens and the lines between them, laid out for a width."""

    def __init__(self, shown: AttentionView, *, width: float, height: float | None = None) -> None:
        self.view, self.width = shown, width
        n_rows, n_columns = shown.weights.shape
        self.n = max(n_rows, n_columns)
        self.pitch = min(PITCH, (MAX_HEIGHT - HEADING - 0.6) / self.n)
        if height is not None:  # match the height of a neighboring panel, but stay readable
            self.pitch = max((height - HEADING) / self.n, min(self.pitch, MIN_PITCH, (MAX_HEIGHT - 2) / self.n))
        self.size, self.every = fit_labels(self.pitch, max_size=LABEL)
        self.left_labels, self.right_labels = (
            [fit_text(label(t), MAX_LABEL_WIDTH, LABEL) for t in shown.columns],
            [fit_text(label(t), MAX_LABEL_WIDTH, LABEL) for t in shown.rows],
        )
        right_role, left_role = shown.roles
        self.left = PAD + max(
            min(max_text_width(self.left_labels, self.size), MAX_LABEL_WIDTH), text_width(left_role, SMALL)
        )
        self.right = PAD + max(
            min(max_text_width(self.right_labels, self.size), MAX_LABEL_WIDTH), text_width(right_role, SMALL)
        )
        self.height = HEADING + self.pitch * self.n

    def draw(self, canvas: Canvas, left: float, top: float) -> Axes:
        """Draw it at a position of the page."""
        middle = self.width - self.left - self.right
        axes = canvas.axes(left + self.left, top + HEADING, middle, self.pitch * self.n)
        axes.set_xlim(0, middle)
        axes.set_ylim(self.n, 0)
        n_rows, n_columns = self.view.weights.shape
        at_left, at_right = self.positions(n_columns), self.positions(n_rows)
        draw_lines(axes, self.view.weights, at_left, at_right, middle)
        self.write_column(axes, self.view.columns, self.left_labels, at_left, x=-PAD, ha="right")
        self.write_column(axes, self.view.rows, self.right_labels, at_right, x=middle + PAD, ha="left")
        right_role, left_role = self.view.roles
        canvas.write(left + self.left - PAD, top + HEADING / 2, left_role, size=SMALL, color=QUIET, ha="right")
        canvas.write(left + self.left + middle + PAD, top + HEADING / 2, right_role, size=SMALL, color=QUIET)
        return axes

    def positions(self, n: int) -> list[float]:
        """Return the positions of the tokens of a column; the shorter column is centered."""
        return [(self.n - n) / 2 + index + 0.5 for index in range(n)]

    def write_column(
        self,
        axes: Axes,
        tokens: Sequence[Token | Word],
        labels: Sequence[str],
        positions: Sequence[float],
        *,
        x: float,
        ha: str,
    ) -> None:
        """Write the labels of a column; if they are too close together, only every n-th."""
        for number in range(0, len(labels), self.every):
            color = QUIET if tokens[number].special else INK
            write(axes, x, positions[number], labels[number], self.size, color=color, ha=ha, va="center_baseline")


def is_drawn(weights: Float[np.ndarray, "T S"]) -> Bool[np.ndarray, "T S"]:
    """Tell which weights get a line."""
    strongest = weights.max(axis=1, keepdims=True, initial=0.0)
    drawn: np.ndarray = (weights >= MIN_WEIGHT) | ((weights == strongest) & (weights > 0))
    return drawn


def draw_lines(
    axes: Axes, weights: Float[np.ndarray, "T S"], left: Sequence[float], right: Sequence[float], width: float
) -> None:
    """Draw a line for each weight that is large enough, the largest last, on top."""
    rows, columns = np.nonzero(is_drawn(weights))
    values = weights[rows, columns]
    order = np.argsort(values, kind="stable")
    paths = [curve(left[columns[index]], right[rows[index]], width) for index in order]
    lines = PathCollection(
        paths,
        facecolors="none",
        cmap=LINES,
        norm=weight_scale(),
        linewidths=MIN_LINE_WIDTH + LINE_WIDTH_PER_WEIGHT * values[order],
    )
    lines.set_array(values[order])
    lines.set_capstyle("round")
    axes.add_collection(lines, autolim=False)


def curve(left: float, right: float, width: float) -> Path:
    """Return a curve with horizontal ends."""
    points = [(0.0, left), (width * 0.42, left), (width * 0.58, right), (width, right)]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


@figure_style()
def attention_lines(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    title: str | None = None,
    width: int | float = COLUMN,
) -> Figure:
    """Draw one attention as lines between tokens: one head, or the mean of all."""
    shown = select_attention(trace, attention=attention, layer=layer, head=head, words=words)
    panel = LinesPanel(shown, width=width - 2 * MARGIN)
    canvas = Canvas(width, panel.height, title=title, notes=f"{shown.caption}. {NOTE}{thinning_note(panel.every)}")
    panel.draw(canvas, MARGIN, canvas.top)
    return canvas.figure
