"""One attention as a matrix: a row per query, a column per key, darker for larger weights."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.tracing.figures.attention_view import AttentionView, select_attention
from sightline.tracing.figures.canvas import BAR, Canvas
from sightline.tracing.figures.label import POINTS, fit_labels, fit_text, label, max_text_width
from sightline.tracing.figures.style import (
    COLUMN,
    FAINT,
    INK,
    LABEL,
    MARGIN,
    MAX_HEIGHT,
    NUMBER,
    QUIET,
    SMALL,
    WEIGHTS,
    figure_style,
    weight_scale,
)
from sightline.tracing.trace import Trace

MAX_CELL = 0.42
MIN_NUMBERED_CELL = 0.21
"""Inches a cell needs to show its number."""
MIN_WHITE_TEXT = 0.65
"""Weights from here on are so dark that their number is written in white."""
MAX_LABEL_WIDTH = 0.95
MAX_UPRIGHT = 1
"""Characters of a label that is not rotated: a digit, a sign, a Chinese word."""
PAD = 0.05
ROLE = 0.16
"""Inches for the words that say what the rows and columns are."""


class MatrixPanel:
    """A matrix with its labels, laid out for a width; its height is known before it is drawn."""

    def __init__(self, shown: AttentionView, *, width: float, max_height: float = MAX_HEIGHT) -> None:
        self.view, self.width = shown, width
        n_rows, n_columns = shown.weights.shape
        self.row_labels, self.column_labels = (
            [fit_text(label(t), MAX_LABEL_WIDTH, LABEL) for t in shown.rows],
            [fit_text(label(t), MAX_LABEL_WIDTH, LABEL) for t in shown.columns],
        )
        label_width = min(max_text_width(self.row_labels, LABEL), MAX_LABEL_WIDTH)
        room = width - ROLE - label_width - 2 * PAD
        self.cell = min(room / n_columns, MAX_CELL, (max_height - 1.6) / n_rows)
        self.size, self.every = fit_labels(self.cell)
        self.beside = min(max_text_width(self.row_labels, self.size), MAX_LABEL_WIDTH)
        across = max_text_width(self.column_labels, self.size)
        self.rotated = across > self.cell * 0.92
        self.above = min(across, MAX_LABEL_WIDTH) if self.rotated else self.size * 1.2 / POINTS
        self.matrix_width, self.matrix_height = self.cell * n_columns, self.cell * n_rows
        self.used = ROLE + self.beside + PAD + self.matrix_width
        self.height = ROLE + self.above + PAD + self.matrix_height + 0.08 + BAR

    def draw(self, canvas: Canvas, left: float, top: float) -> Axes:
        """Draw it at a position of the page, centered in its width."""
        left += (self.width - self.used) / 2
        x, y = left + ROLE + self.beside + PAD, top + ROLE + self.above + PAD
        axes = canvas.axes(x, y, self.matrix_width, self.matrix_height)
        weights = self.view.weights
        axes.imshow(weights, cmap=WEIGHTS, norm=weight_scale(max(weights.shape)), interpolation="none", aspect="auto")
        self.write_labels(axes)
        if self.cell >= MIN_NUMBERED_CELL:
            self.write_numbers(axes)
        frame(axes, *weights.shape)
        row_role, column_role = self.view.roles
        canvas.write(x, top + ROLE / 2, f"{column_role} →", size=SMALL, color=QUIET)
        canvas.write(left + ROLE / 2, y, f"← {row_role}", size=SMALL, color=QUIET, rotation=90, va="top", ha="center")
        bar = min(1.3, max(0.8, self.matrix_width))
        canvas.weight_bar(x, y + self.matrix_height + 0.08, width=bar, n_tokens=max(weights.shape))
        return axes

    def write_labels(self, axes: Axes) -> None:
        """Write the tokens; if they are too close together, only every n-th."""
        pad = PAD / self.cell
        for index in range(0, len(self.row_labels), self.every):
            color = QUIET if self.view.rows[index].special else INK
            text = self.row_labels[index]
            write(axes, -0.5 - pad, index, text, self.size, color=color, ha="right", va="center_baseline")
        for index in range(0, len(self.column_labels), self.every):
            color = QUIET if self.view.columns[index].special else INK
            how = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "va": "center"}
            short = len(self.column_labels[index]) <= MAX_UPRIGHT and self.every == 1
            how = how if self.rotated and not short else {"ha": "center", "va": "bottom"}
            write(axes, index, -0.5 - pad, self.column_labels[index], self.size, color=color, **how)

    def write_numbers(self, axes: Axes) -> None:
        """Write the weight into each cell."""
        size = min(NUMBER, self.cell * POINTS * 0.36)
        for (row, column), weight in np.ndenumerate(self.view.weights):
            color = "white" if weight > MIN_WHITE_TEXT else INK
            write(axes, column, row, format_weight(float(weight)), size, color=color, ha="center", va="center_baseline")


def format_weight(weight: float) -> str:
    """Return a weight as .37; nothing if it rounds to zero."""
    return "1" if weight >= 0.995 else f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def write(axes: Axes, x: int | float, y: int | float, text: str, size: float, **how: object) -> None:
    """Write a text at a position of a matrix, verbatim."""
    axes.text(x, y, text, size=size, parse_math=False, clip_on=False, **how)  # type: ignore[arg-type]


def frame(axes: Axes, n_rows: int, n_columns: int) -> None:
    """Draw a thin frame around a matrix."""
    x, y = [-0.5, n_columns - 0.5, n_columns - 0.5, -0.5, -0.5], [-0.5, -0.5, n_rows - 0.5, n_rows - 0.5, -0.5]
    axes.plot(x, y, color=FAINT, linewidth=0.6, clip_on=False)


@figure_style()
def attention_matrix(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    title: str | None = None,
    width: int | float = COLUMN,
) -> Figure:
    """Draw one attention as a matrix: one head, or the mean of all heads."""
    shown = select_attention(trace, attention=attention, layer=layer, head=head, words=words)
    panel = MatrixPanel(shown, width=width - 2 * MARGIN)
    canvas = Canvas(width, panel.height, title=title, notes=f"{shown.caption}.{thinning_note(panel.every)}")
    panel.draw(canvas, MARGIN, canvas.top)
    return canvas.figure


def thinning_note(every: int) -> str:
    """Return the note that only every n-th token is labeled."""
    return "" if every == 1 else f" One token in {every} is labeled."
