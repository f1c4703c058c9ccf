"""One attention as a matrix, as lines between tokens, or as both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.path import Path

from sightline.errors import InputError
from sightline.tracing.figures.canvas import (
    BAR,
    COLUMN,
    INK,
    LABEL,
    LINES,
    MARGIN,
    MAX_HEIGHT,
    NUMBER,
    PAGE,
    POINTS,
    QUIET,
    SMALL,
    WEIGHTS,
    Canvas,
    draw_frame,
    figure_style,
    fit_labels,
    fit_text,
    max_text_width,
    text_width,
    token_label,
    weight_scale,
)
from sightline.tracing.tokenized_text import Token, Word
from sightline.tracing.trace import Trace

AxisLabels: TypeAlias = tuple[Token, ...] | tuple[Word, ...]
"""The labels of the rows or columns of a matrix."""

TITLES = {
    "cross": "cross-attention",
    "decoder": "decoder self-attention",
    "encoder": "encoder self-attention",
}
"""The kinds of attention a model may have, the one to show first coming first."""
ROLES = {
    "cross": ("target", "source"),
    "decoder": ("query", "key"),
    "encoder": ("query", "key"),
}
"""What the rows and the columns are."""


@dataclass(frozen=True)
class AttentionView:
    """Attention weights of queries (rows) over keys (columns)."""

    name: str
    """For example `decoder.1.cross_attention`."""
    head: int | None
    """None: the mean of all."""
    weights: Float[np.ndarray, "T S"]
    rows: AxisLabels
    columns: AxisLabels
    n_heads: int

    @property
    def caption(self) -> str:
        """Caption of the figure."""
        which = f"head {self.head}" if self.head is not None else f"mean of {self.n_heads} heads"
        which = which if self.n_heads > 1 or self.head is not None else "the only head"
        return f"{describe_attention(self.name)}, {which}"

    @property
    def roles(self) -> tuple[str, str]:
        """What the rows and the columns are."""
        return ROLES[attention_kind(self.name)]


def select_attention(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> AttentionView:
    """Return one attention of a trace, between tokens or between words: one head, or the mean of all."""
    name = resolve_attention(trace, attention=attention, layer=layer)
    index = None if head is None else head_index(trace, name, head)
    rows: AxisLabels
    columns: AxisLabels
    if words:
        by_word = trace.words()
        weights, rows, columns = by_word.attention[name], *by_word.axes(name)
    else:
        weights, rows, columns = trace.attention(name), *trace.axes(name)
    if not weights.size:
        raise InputError(f"{name} has no weights: the text is empty")
    matrix = weights.mean(axis=0) if index is None else weights[index]
    return AttentionView(name, head, matrix, rows, columns, n_heads=len(weights))


def resolve_attention(trace: Trace, *, attention: str | None = None, layer: int | None = None) -> str:
    """Return the name of the attention given by kind (or full name) and layer; by default the last layer."""
    found = group_attentions(trace)
    if attention is not None and attention.removesuffix(".weights") in trace.attentions:
        return attention.removesuffix(".weights")
    kind = next(iter(found)) if attention is None else attention
    if kind not in found:
        raise InputError(f"this trace has no attention {kind[:60]!r}: choose one of {', '.join(found)}")
    layers = {layer_index(name): name for name in found[kind]}
    number = max(layers) if layer is None else layer
    if number not in layers:
        raise InputError(
            f"this trace has no layer {number}: {TITLES[kind]} has the layers {format_numbers(list(layers))}"
        )
    return layers[number]


def group_attentions(trace: Trace) -> dict[str, list[str]]:
    """Return the attentions of a trace by kind, layers in order."""
    found: dict[str, list[str]] = {}
    for kind in TITLES:
        if names := sorted((name for name in trace.attentions if attention_kind(name) == kind), key=layer_index):
            found[kind] = names
    if not found:
        raise InputError("this trace has no attention weights: trace with activations=('*.weights',)")
    return found


def head_index(trace: Trace, name: str, head: int) -> int:
    """Return the index of a head in the arrays of a trace, which may hold only some heads."""
    n_kept = len(trace.attention(name))
    heads = list(trace.heads) if trace.heads is not None else list(range(n_kept))
    if head not in heads:
        raise InputError(f"this trace has no head {head}: it has the heads {format_numbers(heads)}")
    return heads.index(head)


def attention_kind(name: str) -> str:
    """Return the kind of an attention: cross, decoder or encoder."""
    return "cross" if "cross_attention" in name else name.partition(".")[0]


def layer_index(name: str) -> int:
    """Return the layer of an attention."""
    return int(name.split(".")[1])


def describe_attention(name: str) -> str:
    """Return the name of an attention in words."""
    return f"{TITLES[attention_kind(name)]} of layer {layer_index(name)}".capitalize()


def format_numbers(numbers: list[int]) -> str:
    """Return numbers as "0 to 5" if they have no gap, else one by one."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


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
        self.row_labels = fit_token_labels(shown.rows, MAX_LABEL_WIDTH)
        self.column_labels = fit_token_labels(shown.columns, MAX_LABEL_WIDTH)
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
        draw_frame(axes, *weights.shape)
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
            write_text(axes, -0.5 - pad, index, text, self.size, color=color, ha="right", va="center_baseline")
        for index in range(0, len(self.column_labels), self.every):
            color = QUIET if self.view.columns[index].special else INK
            how = {"rotation": 90, "rotation_mode": "anchor", "ha": "left", "va": "center"}
            short = len(self.column_labels[index]) <= MAX_UPRIGHT and self.every == 1
            how = how if self.rotated and not short else {"ha": "center", "va": "bottom"}
            write_text(axes, index, -0.5 - pad, self.column_labels[index], self.size, color=color, **how)

    def write_numbers(self, axes: Axes) -> None:
        """Write the weight into each cell."""
        size = min(NUMBER, self.cell * POINTS * 0.36)
        for (row, column), weight in np.ndenumerate(self.view.weights):
            color = "white" if weight > MIN_WHITE_TEXT else INK
            write_text(
                axes, column, row, format_weight(float(weight)), size, color=color, ha="center", va="center_baseline"
            )


def fit_token_labels(tokens: AxisLabels, room: float) -> list[str]:
    """Return the labels of tokens or words, shortened to this many inches."""
    return [fit_text(token_label(token), room, LABEL) for token in tokens]


def format_weight(weight: float) -> str:
    """Return a weight as .37; nothing if it rounds to zero."""
    return "1" if weight >= 0.995 else f"{weight:.2f}"[1:] if weight >= 0.005 else ""


def write_text(axes: Axes, x: int | float, y: int | float, text: str, size: float, **how: object) -> None:
    """Write a text at a position of a matrix, verbatim."""
    axes.text(x, y, text, size=size, parse_math=False, clip_on=False, **how)  # type: ignore[arg-type]


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


MIN_WEIGHT = 0.05
"""Smaller weights are not drawn, unless they are the largest of their query."""
PITCH = 0.175
"""Inches from token to token, if there is room."""
MIN_PITCH = 0.115
"""Inches at which every token can still be labeled."""
HEADING = 0.2
MAX_SIDE_LABEL_WIDTH = 1.05
SIDE_PAD = 0.06
MIN_LINE_WIDTH, LINE_WIDTH_PER_WEIGHT = 0.35, 3.2
LINES_NOTE = f"Lines: weights of at least {MIN_WEIGHT:g}, and the largest of each query; thicker is larger."


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
        self.left_labels = fit_token_labels(shown.columns, MAX_SIDE_LABEL_WIDTH)
        self.right_labels = fit_token_labels(shown.rows, MAX_SIDE_LABEL_WIDTH)
        right_role, left_role = shown.roles
        self.left = SIDE_PAD + max(
            min(max_text_width(self.left_labels, self.size), MAX_SIDE_LABEL_WIDTH), text_width(left_role, SMALL)
        )
        self.right = SIDE_PAD + max(
            min(max_text_width(self.right_labels, self.size), MAX_SIDE_LABEL_WIDTH), text_width(right_role, SMALL)
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
        self.write_column(axes, self.view.columns, self.left_labels, at_left, x=-SIDE_PAD, ha="right")
        self.write_column(axes, self.view.rows, self.right_labels, at_right, x=middle + SIDE_PAD, ha="left")
        right_role, left_role = self.view.roles
        canvas.write(left + self.left - SIDE_PAD, top + HEADING / 2, left_role, size=SMALL, color=QUIET, ha="right")
        canvas.write(left + self.left + middle + SIDE_PAD, top + HEADING / 2, right_role, size=SMALL, color=QUIET)
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
            write_text(axes, x, positions[number], labels[number], self.size, color=color, ha=ha, va="center_baseline")


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
    canvas = Canvas(
        width, panel.height, title=title, notes=f"{shown.caption}. {LINES_NOTE}{thinning_note(panel.every)}"
    )
    panel.draw(canvas, MARGIN, canvas.top)
    return canvas.figure


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
    canvas = Canvas(width, height, title=title, notes=f"{shown.caption}. {LINES_NOTE}{thinning_note(every)}")
    lines.draw(canvas, MARGIN, canvas.top)
    matrix.draw(canvas, MARGIN + room * LINES_SHARE + BETWEEN, canvas.top)
    return canvas.figure
