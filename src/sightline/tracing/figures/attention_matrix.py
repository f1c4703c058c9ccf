"""An attention as a matrix: a row for each token that looks, a column for each it looks at, dark where it looks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.tracing.figures.label import POINTS, broadest, fitted, fitting, label
from sightline.tracing.figures.sheet import BAR, Sheet
from sightline.tracing.figures.style import (
    COLUMN,
    FAINT,
    INK,
    LABEL,
    MARGIN,
    NUMBER,
    QUIET,
    SMALL,
    TALLEST,
    WEIGHTS,
    weight_scale,
)
from sightline.tracing.figures.view import View, view
from sightline.tracing.trace import Trace

LARGEST_CELL = 0.42
NUMBERED_CELL = 0.21
"""Inches a cell must have for its number to be written into it."""
DARK = 0.65
"""A weight from which on its cell is so dark that its number is written in white."""
WIDEST_LABEL = 0.95
SHORT = 1
"""Characters of a label that is not turned: a digit, a sign, a Chinese word."""
PAD = 0.05
ROLE = 0.16
"""Inches for the words that say what the rows and columns are."""


class MatrixPanel:
    """A matrix with its labels, laid out for a width; it knows its height before it is drawn."""

    def __init__(self, shown: View, *, width: float, tallest: float = TALLEST) -> None:
        self.view, self.width = shown, width
        n_rows, n_columns = shown.weights.shape
        self.row_labels, self.column_labels = (
            [fitted(label(t), WIDEST_LABEL, LABEL) for t in shown.rows],
            [fitted(label(t), WIDEST_LABEL, LABEL) for t in shown.columns],
        )
        beside = min(broadest(self.row_labels, LABEL), WIDEST_LABEL)
        room = width - ROLE - beside - 2 * PAD
        self.cell = min(room / n_columns, LARGEST_CELL, (tallest - 1.6) / n_rows)
        self.size, self.every = fitting(self.cell)
        self.beside = min(broadest(self.row_labels, self.size), WIDEST_LABEL)
        across = broadest(self.column_labels, self.size)
        self.upright = across > self.cell * 0.92
        self.above = min(across, WIDEST_LABEL) if self.upright else self.size * 1.2 / POINTS
        self.matrix_width, self.matrix_height = self.cell * n_columns, self.cell * n_rows
        self.used = ROLE + self.beside + PAD + self.matrix_width
        self.height = ROLE + self.above + PAD + self.matrix_height + 0.08 + BAR

    def draw(self, sheet: Sheet, left: float, top: float) -> Axes:
        """Draw it at a place of the page, in the middle of its width."""
        left += (self.width - self.used) / 2
        x, y = left + ROLE + self.beside + PAD, top + ROLE + self.above + PAD
        axes = sheet.axes(x, y, self.matrix_width, self.matrix_height)
        weights = self.view.weights
        axes.imshow(weights, cmap=WEIGHTS, norm=weight_scale(max(weights.shape)), interpolation="none", aspect="auto")
        self.write_labels(axes)
        if self.cell >= NUMBERED_CELL:
            self.write_numbers(axes)
        frame(axes, *weights.shape)
        row_role, column_role = self.view.roles
        sheet.write(x, top + ROLE / 2, f"{column_role} →", size=SMALL, color=QUIET)
        sheet.write(left + ROLE / 2, y, f"← {row_role}", size=SMALL, color=QUIET, rotation=90, va="top", ha="center")
        bar = min(1.3, max(0.8, self.matrix_width))
        sheet.weight_bar(x, y + self.matrix_height + 0.08, width=bar, longest=max(weights.shape))
        return axes

    def write_labels(self, axes: Axes) -> None:
        """Write the tokens; where they stand too close, one of some."""
        pad = PAD / self.cell
        for place in range(0, len(self.row_labels), self.every):
            color = QUIET if self.view.rows[place].special else INK
            text = self.row_labels[place]
            write(axes, -0.5 - pad, place, text, self.size, color=color, ha="right", va="center_baseline")
        for place in range(0, len(self.column_labels), self.every):
            color = QUIET if self.view.columns[place].special else INK
            how = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "va": "center"}
            short = len(self.column_labels[place]) <= SHORT and self.every == 1
            how = how if self.upright and not short else {"ha": "center", "va": "bottom"}
            write(axes, place, -0.5 - pad, self.column_labels[place], self.size, color=color, **how)

    def write_numbers(self, axes: Axes) -> None:
        """Write the weight into each cell."""
        size = min(NUMBER, self.cell * POINTS * 0.36)
        for (row, column), weight in np.ndenumerate(self.view.weights):
            color = "white" if weight > DARK else INK
            write(axes, column, row, hundredths(float(weight)), size, color=color, ha="center", va="center_baseline")


def hundredths(weight: float) -> str:
    """Return a weight as .37; what is below a hundredth as nothing."""
    return "1" if weight >= 0.995 else f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def write(axes: Axes, x: int | float, y: int | float, text: str, size: float, **how: object) -> None:
    """Write a text at a place of a matrix, as it is."""
    axes.text(x, y, text, size=size, parse_math=False, clip_on=False, **how)  # type: ignore[arg-type]


def frame(axes: Axes, n_rows: int, n_columns: int) -> None:
    """Draw a fine line around a matrix."""
    x, y = [-0.5, n_columns - 0.5, n_columns - 0.5, -0.5, -0.5], [-0.5, -0.5, n_rows - 0.5, n_rows - 0.5, -0.5]
    axes.plot(x, y, color=FAINT, linewidth=0.6, clip_on=False)


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
    """Draw one attention as a matrix: one head, or the mean of all."""
    shown = view(trace, attention=attention, layer=layer, head=head, words=words)
    panel = MatrixPanel(shown, width=width - 2 * MARGIN)
    sheet = Sheet(width, panel.height, title=title, notes=f"{shown.caption}.{thinned(panel.every)}")
    panel.draw(sheet, MARGIN, sheet.top)
    return sheet.figure


def thinned(every: int) -> str:
    """Return the note that not every token is written."""
    return "" if every == 1 else f" One token of {every} is written."
