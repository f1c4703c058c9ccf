"""One attention twice, side by side: as lines between words, and as a matrix of the same weights."""

from matplotlib.figure import Figure

from sightline.tracing.figures.attention_lines import NOTE, LinesPanel
from sightline.tracing.figures.attention_matrix import MatrixPanel, thinning_note
from sightline.tracing.figures.attention_view import select_attention
from sightline.tracing.figures.canvas import BAR, Canvas
from sightline.tracing.figures.style import MARGIN, PAGE, figure_style
from sightline.tracing.trace import Trace

BETWEEN = 0.3
LINES_SHARE = 0.42
"""Share of the width for the lines."""


@figure_style()
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
    shown = select_attention(trace, attention=attention, layer=layer, head=head, words=words)
    room = width - 2 * MARGIN - BETWEEN
    matrix = MatrixPanel(shown, width=room * (1 - LINES_SHARE))
    lines = LinesPanel(shown, width=room * LINES_SHARE, height=matrix.height - BAR)
    height = max(lines.height, matrix.height)
    every = max(lines.every, matrix.every)
    canvas = Canvas(width, height, title=title, notes=f"{shown.caption}. {NOTE}{thinning_note(every)}")
    lines.draw(canvas, MARGIN, canvas.top)
    matrix.draw(canvas, MARGIN + room * LINES_SHARE + BETWEEN, canvas.top)
    return canvas.figure
