"""An attention twice, side by side: as lines between words, and as the matrix of the same numbers."""

from matplotlib.figure import Figure

from sightline.tracing.figures.attention_lines import NOTE, LinesPanel
from sightline.tracing.figures.attention_matrix import MatrixPanel, thinned
from sightline.tracing.figures.sheet import BAR, Sheet
from sightline.tracing.figures.style import MARGIN, PAGE
from sightline.tracing.figures.view import view
from sightline.tracing.trace import Trace

BETWEEN = 0.3
SHARE = 0.42
"""Of the width, for the lines."""


def attention_both(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw one attention as lines and as a matrix: one head, or the mean of all."""
    shown = view(trace, attention=attention, layer=layer, head=head, words=words)
    room = width - 2 * MARGIN - BETWEEN
    matrix = MatrixPanel(shown, width=room * (1 - SHARE))
    lines = LinesPanel(shown, width=room * SHARE, height=matrix.height - BAR)
    height = max(lines.height, matrix.height)
    every = max(lines.every, matrix.every)
    sheet = Sheet(width, height, title=title, notes=f"{shown.caption}. {NOTE}{thinned(every)}")
    lines.draw(sheet, MARGIN, sheet.top)
    matrix.draw(sheet, MARGIN + room * SHARE + BETWEEN, sheet.top)
    return sheet.figure
