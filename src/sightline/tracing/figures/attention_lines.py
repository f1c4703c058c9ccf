"""An attention as lines between words: on the left what is looked at, on the right who looks, thick where much."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.path import Path

from sightline.tracing.figures.attention_matrix import thinned, write
from sightline.tracing.figures.label import breadth, broadest, fitted, fitting, label
from sightline.tracing.figures.sheet import Sheet
from sightline.tracing.figures.style import COLUMN, INK, LABEL, LINES, MARGIN, QUIET, SMALL, TALLEST, weight_scale
from sightline.tracing.figures.view import View, view
from sightline.tracing.passage import Token, Word
from sightline.tracing.trace import Trace

FAINTEST = 0.05
"""Weights below it are not drawn, unless it is the most a token gives."""
PITCH = 0.175
"""Inches from token to token, where there is room."""
CLOSEST = 0.115
"""Inches at which every token can still be written."""
HEADING = 0.2
WIDEST_LABEL = 1.05
PAD = 0.06
THINNEST, THICKEST = 0.35, 3.2
NOTE = f"Lines: weights of at least {FAINTEST:g}, and the largest of each token; thicker is more."


class LinesPanel:
    """Two columns of tokens and the lines between them, laid out for a width."""

    def __init__(self, shown: View, *, width: float, height: float | None = None) -> None:
        self.view, self.width = shown, width
        n_rows, n_columns = shown.weights.shape
        self.n = max(n_rows, n_columns)
        self.pitch = min(PITCH, (TALLEST - HEADING - 0.6) / self.n)
        if height is not None:  # to stand beside something of this height, but not closer than can be read
            self.pitch = max((height - HEADING) / self.n, min(self.pitch, CLOSEST, (TALLEST - 2) / self.n))
        self.size, self.every = fitting(self.pitch, most=LABEL)
        self.left_labels, self.right_labels = (
            [fitted(label(t), WIDEST_LABEL, LABEL) for t in shown.columns],
            [fitted(label(t), WIDEST_LABEL, LABEL) for t in shown.rows],
        )
        right_role, left_role = shown.roles
        self.left = PAD + max(min(broadest(self.left_labels, self.size), WIDEST_LABEL), breadth(left_role, SMALL))
        self.right = PAD + max(min(broadest(self.right_labels, self.size), WIDEST_LABEL), breadth(right_role, SMALL))
        self.height = HEADING + self.pitch * self.n

    def draw(self, sheet: Sheet, left: float, top: float) -> Axes:
        """Draw it at a place of the page."""
        middle = self.width - self.left - self.right
        axes = sheet.axes(left + self.left, top + HEADING, middle, self.pitch * self.n)
        axes.set_xlim(0, middle)
        axes.set_ylim(self.n, 0)
        n_rows, n_columns = self.view.weights.shape
        at_left, at_right = self.places(n_columns), self.places(n_rows)
        draw_lines(axes, self.view.weights, at_left, at_right, middle)
        self.write_column(axes, self.view.columns, self.left_labels, at_left, x=-PAD, ha="right")
        self.write_column(axes, self.view.rows, self.right_labels, at_right, x=middle + PAD, ha="left")
        right_role, left_role = self.view.roles
        sheet.write(left + self.left - PAD, top + HEADING / 2, left_role, size=SMALL, color=QUIET, ha="right")
        sheet.write(left + self.left + middle + PAD, top + HEADING / 2, right_role, size=SMALL, color=QUIET)
        return axes

    def places(self, n: int) -> list[float]:
        """Return where the tokens of a column stand: the shorter one in the middle."""
        return [(self.n - n) / 2 + place + 0.5 for place in range(n)]

    def write_column(
        self,
        axes: Axes,
        tokens: Sequence[Token | Word],
        labels: Sequence[str],
        places: Sequence[float],
        *,
        x: float,
        ha: str,
    ) -> None:
        """Write the tokens of a column; where they stand too close, one of some."""
        for number in range(0, len(labels), self.every):
            color = QUIET if tokens[number].special else INK
            write(axes, x, places[number], labels[number], self.size, color=color, ha=ha, va="center_baseline")


def is_drawn(weights: Float[np.ndarray, "T S"]) -> Bool[np.ndarray, "T S"]:
    """Say which weights get a line."""
    strongest = weights.max(axis=1, keepdims=True, initial=0.0)
    drawn: np.ndarray = (weights >= FAINTEST) | ((weights == strongest) & (weights > 0))
    return drawn


def draw_lines(
    axes: Axes, weights: Float[np.ndarray, "T S"], left: Sequence[float], right: Sequence[float], width: float
) -> None:
    """Draw a line for each weight that counts, the strongest last, so that they lie on top."""
    rows, columns = np.nonzero(is_drawn(weights))
    values = weights[rows, columns]
    order = np.argsort(values, kind="stable")
    paths = [curve(left[columns[place]], right[rows[place]], width) for place in order]
    lines = PathCollection(
        paths, facecolors="none", cmap=LINES, norm=weight_scale(), linewidths=THINNEST + THICKEST * values[order]
    )
    lines.set_array(values[order])
    lines.set_capstyle("round")
    axes.add_collection(lines, autolim=False)


def curve(left: float, right: float, width: float) -> Path:
    """Return a line that leaves and arrives level."""
    points = [(0.0, left), (width * 0.42, left), (width * 0.58, right), (width, right)]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


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
    shown = view(trace, attention=attention, layer=layer, head=head, words=words)
    panel = LinesPanel(shown, width=width - 2 * MARGIN)
    sheet = Sheet(width, panel.height, title=title, notes=f"{shown.caption}. {NOTE}{thinned(panel.every)}")
    panel.draw(sheet, MARGIN, sheet.top)
    return sheet.figure
