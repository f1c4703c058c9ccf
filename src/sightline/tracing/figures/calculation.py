"""One head and one query, step by step with its numbers: q·k, ÷ √d, + mask, softmax, · v (Vaswani et al. 2017, 3.2.1).

The query stands above the keys and the output below the values, dimension under dimension, so that each dot product and
each weighted sum can be followed by eye.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.attention import attention_kind, describe_attention, head_index, resolve_attention
from sightline.tracing.figures.canvas import (
    FAINT,
    INK,
    KEY,
    LABEL,
    MARGIN,
    NUMBER,
    PAGE,
    QUERY,
    QUIET,
    SIGNED,
    SMALL,
    VALUE,
    WEIGHT,
    Canvas,
    draw_frame,
    figure_style,
    fit_text,
    signed_scale,
    token_label,
    wrap_text,
)
from sightline.tracing.tokenized_text import Token
from sightline.tracing.trace import Trace

POINTS_NEEDED = ("query", "key", "value", "scores", "scaled", "masked", "weights", "head_outputs")
MAX_KEYS = 14
"""Rows; of more keys, those with the largest weights."""
LINE = 0.195
STRIP = 0.135
HEADING = 0.42
MIN_SHOWN = 0.0005
MAX_EXPONENT = 9.0
COLUMNS = {"scores": ("q · k", 0.50), "scaled": ("÷ √{d}", 0.50), "masked": ("+ mask", 0.50)}


@dataclass(frozen=True)
class HeadComputation:
    """Everything one head computes for one query."""

    name: str
    head: int
    row: int
    query_token: Token
    keys: tuple[Token, ...]
    query: Float[np.ndarray, "D"]
    key: Float[np.ndarray, "S D"]
    value: Float[np.ndarray, "S D"]
    scores: Float[np.ndarray, "S"]
    scaled: Float[np.ndarray, "S"]
    masked: Float[np.ndarray, "S"]
    weights: Float[np.ndarray, "S"]
    head_output: Float[np.ndarray, "D"]

    @property
    def shown(self) -> list[int]:
        """The keys to draw, in order: all of them, or those with the largest weights."""
        if len(self.keys) <= MAX_KEYS:
            return list(range(len(self.keys)))
        return sorted(np.argsort(-self.weights, kind="stable")[:MAX_KEYS].tolist())


def select_computation(
    trace: Trace, *, attention: str | None, layer: int | None, head: int | None, row: int | None
) -> HeadComputation:
    """Return the computation of one head and one query; by default the first head and the last query."""
    name = resolve_attention(trace, attention=attention, layer=layer)
    if missing := [point for point in POINTS_NEEDED if f"{name}.{point}" not in trace.activations]:
        raise InputError(
            f"this trace has no {', '.join(missing)} of {name}: trace with activations=('*.weights', '{name}.*')"
        )
    if head is None:
        head = trace.heads[0] if trace.heads else 0
    index = head_index(trace, name, head)
    queries, keys = trace.axes(name)
    number = len(queries) - 1 if row is None else row
    if not 0 <= number < len(queries):
        raise InputError(f"this trace has no row {number}: {name} has the rows 0 to {len(queries) - 1}")
    arrays = {point: trace[f"{name}.{point}"] for point in POINTS_NEEDED}
    group = kv_head_index(trace, head, index, n_kept=len(arrays["key"]))
    return HeadComputation(
        name, head, number, queries[number], keys,
        query=arrays["query"][index, number], key=arrays["key"][group], value=arrays["value"][group],
        scores=arrays["scores"][index, number], scaled=arrays["scaled"][index, number],
        masked=arrays["masked"][index, number], weights=arrays["weights"][index, number],
        head_output=arrays["head_outputs"][index, number],
    )  # fmt: skip


def kv_head_index(trace: Trace, head: int, index: int, *, n_kept: int) -> int:
    """Return the index of the keys and values of a head: several heads may share them (grouped-query attention)."""
    groups, n_heads = trace.model.get("n_kv_heads"), trace.model.get("n_heads")
    if isinstance(groups, int) and isinstance(n_heads, int) and groups < n_heads and n_kept == groups:
        return head * groups // n_heads
    return index


@figure_style()
def calculation(
    trace: Trace,
    *,
    attention: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    row: int | None = None,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the computation of one head for the query of one row."""
    shown = select_computation(trace, attention=attention, layer=layer, head=head, row=row)
    example = [line for part in worked_example(shown) for line in wrap_text(part, width - 2 * MARGIN - 0.2, NUMBER)]
    rows = len(shown.shown) + (len(shown.shown) < len(shown.keys))
    height = HEADING + LINE * (rows + 1) + 0.16 + 0.13 * len(example)
    canvas = Canvas(width, height, title=title, notes=caption(shown))
    Table(shown, canvas).draw(rows)
    for number, line in enumerate(example):
        y = canvas.bottom - 0.13 * (len(example) - number - 0.5)
        canvas.write(MARGIN + 0.1, y, line, size=NUMBER, color=INK)
    return canvas.figure


class Table:
    """The columns of the figure and their contents."""

    def __init__(self, shown: HeadComputation, canvas: Canvas) -> None:
        self.computation, self.canvas = shown, canvas
        self.token = 0.95
        numbers = sum(width for _, width in COLUMNS.values())
        self.soft = 0.98
        self.strip = (canvas.width - 2 * MARGIN - self.token - numbers - self.soft - 0.3) / 2
        self.key_x = MARGIN + self.token
        self.number_x = self.key_x + self.strip + 0.08
        self.soft_x = self.number_x + numbers + 0.12
        self.value_x = self.soft_x + self.soft + 0.1
        self.page = canvas.page()
        vectors = [shown.query, shown.key[shown.shown]]
        self.key_scale = float(max(np.abs(vector).max() for vector in vectors))
        self.value_scale = float(max(np.abs(shown.value[shown.shown]).max(), np.abs(shown.head_output).max()))

    def draw(self, rows: int) -> None:
        """Draw the query, a line for each key, and the output."""
        shown, write = self.computation, self.canvas.write
        top = self.canvas.top + 0.1
        write(self.key_x - 0.08, top, "query", size=LABEL, color=QUERY, ha="right")
        token = fit_text(token_label(shown.query_token), self.canvas.width - self.number_x - 1.2, LABEL)
        words = f"predicting “{token}”" if attention_kind(shown.name) == "cross" else f"of “{token}”"
        write(self.number_x, top, words, size=LABEL, color=QUERY)
        self.draw_strip(shown.query, self.key_x, top, self.key_scale)
        heading = self.canvas.top + HEADING - 0.09
        write(self.key_x - 0.08, heading, "attends to", size=SMALL, color=QUIET, ha="right")
        write(self.key_x, heading, "keys", size=LABEL, color=KEY)
        write(self.soft_x, heading, "softmax", size=LABEL, color=WEIGHT)
        write(self.value_x, heading, "values", size=LABEL, color=VALUE)
        right = self.number_x
        for words, wide in COLUMNS.values():
            right += wide
            write(right, heading, words.format(d=len(shown.query)), size=LABEL, ha="right")
        for number, key in enumerate(shown.shown):
            self.draw_line(key, self.canvas.top + HEADING + LINE * (number + 0.5))
        if rows > len(shown.shown):
            self.draw_rest(self.canvas.top + HEADING + LINE * (rows - 0.5))
        y = self.canvas.top + HEADING + LINE * rows
        self.page.plot([MARGIN, self.canvas.width - MARGIN], [y + 0.03] * 2, color=FAINT, linewidth=0.7)
        y += LINE / 2 + 0.07
        write(self.value_x - 0.1, y, "Σ weight · value =", size=LABEL, color=INK, ha="right")
        self.draw_strip(shown.head_output, self.value_x, y, self.value_scale)

    def draw_line(self, index: int, y: float) -> None:
        """Draw one key: its vector, scores, weight and value."""
        shown, write = self.computation, self.canvas.write
        token = shown.keys[index]
        write(
            self.key_x - 0.08,
            y,
            fit_text(token_label(token), self.token - 0.1, LABEL),
            size=LABEL,
            color=QUIET if token.special else INK,
            ha="right",
        )
        self.draw_strip(shown.key[index], self.key_x, y, self.key_scale)
        right = self.number_x
        for point, (_, wide) in COLUMNS.items():
            right += wide
            write(right, y, digits(float(getattr(shown, point)[index])), size=NUMBER, ha="right")
        weight = float(shown.weights[index])
        write(self.soft_x + 0.3, y, f"{weight:.3f}", size=NUMBER, ha="right")
        self.draw_bar(weight, y)
        self.draw_strip(shown.value[index], self.value_x, y, self.value_scale)

    def draw_bar(self, weight: float, y: float, *, color: str = WEIGHT) -> None:
        """Draw a weight as a bar; a thin line marks the length of weight 1."""
        self.page.plot(
            [self.soft_x + 0.36, self.soft_x + self.soft - 0.06], [y, y], color=FAINT, linewidth=0.5, zorder=1
        )
        self.page.barh(y, weight * (self.soft - 0.42), height=0.1, left=self.soft_x + 0.36, color=color, zorder=2)

    def draw_rest(self, y: float) -> None:
        """Write how many keys are not shown, and their total weight."""
        shown = self.computation
        left_out = sorted(set(range(len(shown.keys))) - set(shown.shown))
        weight = float(shown.weights[left_out].sum())
        text = f"{len(left_out)} others, together"
        self.canvas.write(self.number_x + 1.5, y, text, size=SMALL, color=QUIET, ha="right")
        self.canvas.write(self.soft_x + 0.3, y, f"{weight:.3f}", size=NUMBER, color=QUIET, ha="right")
        self.draw_bar(weight, y, color=FAINT)

    def draw_strip(self, vector: Float[np.ndarray, "D"], x: float, y: float, limit: float) -> Axes:
        """Draw a vector as a row of cells."""
        axes = self.canvas.axes(x, y - STRIP / 2, self.strip, STRIP)
        axes.imshow(vector[None], cmap=SIGNED, norm=signed_scale(limit), interpolation="none", aspect="auto")
        draw_frame(axes, 1, len(vector))
        return axes


def worked_example(shown: HeadComputation) -> list[str]:
    """Return the computation of the key with the largest weight as lines of text."""
    best = int(np.argmax(shown.weights))
    if not shown.weights[best] > 0:
        return ["This query attends to nothing: all its weights are 0."]
    products = " + ".join(
        f"{digits(float(a), within=True)}·{digits(float(b), within=True)}"
        for a, b in zip(shown.query[:4], shown.key[best, :4], strict=True)
    )
    more = " + …" if len(shown.query) > 4 else ""
    scores, scaled, masked = (float(getattr(shown, point)[best]) for point in COLUMNS)
    return [
        f"For “{token_label(shown.keys[best])}”:  q · k = {products}{more} = {digits(scores)}",
        f"{digits(scores)} ÷ √{len(shown.query)} = {digits(scaled)};  with the mask {digits(masked)};  "
        f"softmax = {exponentials(shown.masked, best)} = {shown.weights[best]:.3f}",
    ]


def exponentials(masked: Float[np.ndarray, "S"], best: int) -> str:
    """Return the softmax as a quotient; large scores are reduced by the maximum first, as in the code."""
    scores = masked.astype(np.float64)
    shift = float(scores[best]) if abs(scores[best]) > MAX_EXPONENT else 0.0
    powers = np.exp(scores - shift)
    over = f"({digits(float(scores[best]))} − {digits(shift, within=True)})" if shift else digits(float(scores[best]))
    return f"e^{over} ÷ Σ = {digits(float(powers[best]))} ÷ {digits(float(powers.sum()))}"


def caption(shown: HeadComputation) -> str:
    """Return the caption."""
    which = f"{describe_attention(shown.name)}, head {shown.head}, row {shown.row}. "
    return f"{which}Cells: brown below zero, green above, paler towards zero; head width {len(shown.query)}."


def digits(number: float, *, within: bool = False) -> str:
    """Return a number with three significant digits; within a formula a negative one in parentheses."""
    if math.isinf(number):
        return "−∞" if number < 0 else "∞"
    if abs(number) < MIN_SHOWN:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(number))))
    text = f"{number:.{min(decimals, 3)}f}".replace("-", "−")
    return f"({text})" if within and number < 0 else text
