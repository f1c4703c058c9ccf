"""One head and one query, step by step with its numbers: q·k, ÷ √d, + mask, softmax, · v (Vaswani et al. 2017, 3.2.1).

The query stands above the keys and the result below the values, depth under depth, so that each dot product and each
weighted sum can be followed with a finger.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.attention_matrix import frame
from sightline.tracing.figures.label import fitted, label
from sightline.tracing.figures.sheet import Sheet, wrapped
from sightline.tracing.figures.style import (
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
    signed_scale,
)
from sightline.tracing.figures.view import chosen_name, described, part_of, place_of
from sightline.tracing.passage import Token
from sightline.tracing.trace import Trace

POINTS_NEEDED = ("query", "key", "value", "scores", "scaled", "masked", "weights", "mixed")
MOST_KEYS = 14
"""Rows; of more keys, those that are looked at most."""
LINE = 0.195
STRIP = 0.135
HEADING = 0.42
SMALLEST_SHOWN = 0.0005
LARGEST_EXPONENT = 9.0
COLUMNS = {"scores": ("q · k", 0.50), "scaled": ("÷ √{d}", 0.50), "masked": ("+ mask", 0.50)}


@dataclass(frozen=True)
class Sum:
    """All that one head computes for one query."""

    name: str
    head: int
    row: int
    asking: Token
    keys: tuple[Token, ...]
    query: Float[np.ndarray, "D"]
    key: Float[np.ndarray, "S D"]
    value: Float[np.ndarray, "S D"]
    scores: Float[np.ndarray, "S"]
    scaled: Float[np.ndarray, "S"]
    masked: Float[np.ndarray, "S"]
    weights: Float[np.ndarray, "S"]
    mixed: Float[np.ndarray, "D"]

    @property
    def shown(self) -> list[int]:
        """The keys that are drawn, in order: all of them, or those that are looked at most."""
        if len(self.keys) <= MOST_KEYS:
            return list(range(len(self.keys)))
        return sorted(np.argsort(-self.weights, kind="stable")[:MOST_KEYS].tolist())


def chosen_sum(trace: Trace, *, attention: str | None, layer: int | None, head: int | None, row: int | None) -> Sum:
    """Return the numbers of one head and one query; by default of head 0 and the last query."""
    name = chosen_name(trace, attention=attention, layer=layer)
    if missing := [point for point in POINTS_NEEDED if f"{name}.{point}" not in trace.probes]:
        raise InputError(
            f"this trace has no {', '.join(missing)} of {name}: make it with probes=('*.weights', '{name}.*')"
        )
    if head is None:
        head = trace.heads[0] if trace.heads else 0
    place = place_of(trace, name, head)
    asking, keys = trace.axes(name)
    number = len(asking) - 1 if row is None else row
    if not 0 <= number < len(asking):
        raise InputError(f"there is no row {number} here: {name} has the rows 0 to {len(asking) - 1}")
    arrays = {point: trace[f"{name}.{point}"] for point in POINTS_NEEDED}
    group = shared(trace, head, place, n_kept=len(arrays["key"]))
    return Sum(
        name, head, number, asking[number], keys,
        query=arrays["query"][place, number], key=arrays["key"][group], value=arrays["value"][group],
        scores=arrays["scores"][place, number], scaled=arrays["scaled"][place, number],
        masked=arrays["masked"][place, number], weights=arrays["weights"][place, number],
        mixed=arrays["mixed"][place, number],
    )  # fmt: skip


def shared(trace: Trace, head: int, place: int, *, n_kept: int) -> int:
    """Return where the keys and values of a head are: several heads may share them."""
    groups, n_heads = trace.model.get("n_kv_heads"), trace.model.get("n_heads")
    if isinstance(groups, int) and isinstance(n_heads, int) and groups < n_heads and n_kept == groups:
        return head * groups // n_heads
    return place


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
    """Draw the calculation of one head for the token of one row."""
    shown = chosen_sum(trace, attention=attention, layer=layer, head=head, row=row)
    example = [line for part in worked(shown) for line in wrapped(part, width - 2 * MARGIN - 0.2, NUMBER)]
    rows = len(shown.shown) + (len(shown.shown) < len(shown.keys))
    height = HEADING + LINE * (rows + 1) + 0.16 + 0.13 * len(example)
    sheet = Sheet(width, height, title=title, notes=caption(shown))
    Table(shown, sheet).draw(rows)
    for number, line in enumerate(example):
        y = sheet.bottom - 0.13 * (len(example) - number - 0.5)
        sheet.write(MARGIN + 0.1, y, line, size=NUMBER, color=INK)
    return sheet.figure


class Table:
    """Where the columns of the figure stand, and what is written into them."""

    def __init__(self, shown: Sum, sheet: Sheet) -> None:
        self.sum, self.sheet = shown, sheet
        self.token = 0.95
        numbers = sum(width for _, width in COLUMNS.values())
        self.soft = 0.98
        self.strip = (sheet.width - 2 * MARGIN - self.token - numbers - self.soft - 0.3) / 2
        self.key_x = MARGIN + self.token
        self.number_x = self.key_x + self.strip + 0.08
        self.soft_x = self.number_x + numbers + 0.12
        self.value_x = self.soft_x + self.soft + 0.1
        self.page = sheet.page()
        vectors = [shown.query, shown.key[shown.shown]]
        self.key_scale = float(max(np.abs(vector).max() for vector in vectors))
        self.value_scale = float(max(np.abs(shown.value[shown.shown]).max(), np.abs(shown.mixed).max()))

    def draw(self, rows: int) -> None:
        """Draw the query, a line for each key, and the result."""
        shown, write = self.sum, self.sheet.write
        top = self.sheet.top + 0.1
        write(self.key_x - 0.08, top, "query", size=LABEL, color=QUERY, ha="right")
        asking = fitted(label(shown.asking), self.sheet.width - self.number_x - 1.2, LABEL)
        words = f"where “{asking}” is written" if part_of(shown.name) == "cross" else f"of “{asking}”"
        write(self.number_x, top, words, size=LABEL, color=QUERY)
        self.draw_strip(shown.query, self.key_x, top, self.key_scale)
        heading = self.sheet.top + HEADING - 0.09
        write(self.key_x - 0.08, heading, "looks at", size=SMALL, color=QUIET, ha="right")
        write(self.key_x, heading, "keys", size=LABEL, color=KEY)
        write(self.soft_x, heading, "softmax", size=LABEL, color=WEIGHT)
        write(self.value_x, heading, "values", size=LABEL, color=VALUE)
        right = self.number_x
        for words, wide in COLUMNS.values():
            right += wide
            write(right, heading, words.format(d=len(shown.query)), size=LABEL, ha="right")
        for number, place in enumerate(shown.shown):
            self.draw_line(place, self.sheet.top + HEADING + LINE * (number + 0.5))
        if rows > len(shown.shown):
            self.draw_rest(self.sheet.top + HEADING + LINE * (rows - 0.5))
        y = self.sheet.top + HEADING + LINE * rows
        self.page.plot([MARGIN, self.sheet.width - MARGIN], [y + 0.03] * 2, color=FAINT, linewidth=0.7)
        y += LINE / 2 + 0.07
        write(self.value_x - 0.1, y, "Σ weight · value =", size=LABEL, color=INK, ha="right")
        self.draw_strip(shown.mixed, self.value_x, y, self.value_scale)

    def draw_line(self, place: int, y: float) -> None:
        """Draw what becomes of one key."""
        shown, write = self.sum, self.sheet.write
        token = shown.keys[place]
        write(
            self.key_x - 0.08,
            y,
            fitted(label(token), self.token - 0.1, LABEL),
            size=LABEL,
            color=QUIET if token.special else INK,
            ha="right",
        )
        self.draw_strip(shown.key[place], self.key_x, y, self.key_scale)
        right = self.number_x
        for point, (_, wide) in COLUMNS.items():
            right += wide
            write(right, y, digits(float(getattr(shown, point)[place])), size=NUMBER, ha="right")
        weight = float(shown.weights[place])
        write(self.soft_x + 0.3, y, f"{weight:.3f}", size=NUMBER, ha="right")
        self.draw_bar(weight, y)
        self.draw_strip(shown.value[place], self.value_x, y, self.value_scale)

    def draw_bar(self, weight: float, y: float, *, color: str = WEIGHT) -> None:
        """Draw a weight as a bar; a fine line is as long as the weight 1."""
        self.page.plot(
            [self.soft_x + 0.36, self.soft_x + self.soft - 0.06], [y, y], color=FAINT, linewidth=0.5, zorder=1
        )
        self.page.barh(y, weight * (self.soft - 0.42), height=0.1, left=self.soft_x + 0.36, color=color, zorder=2)

    def draw_rest(self, y: float) -> None:
        """Say how many keys are not shown, and what they weigh together."""
        shown = self.sum
        left_out = sorted(set(range(len(shown.keys))) - set(shown.shown))
        weight = float(shown.weights[left_out].sum())
        text = f"{len(left_out)} others, together"
        self.sheet.write(self.number_x + 1.5, y, text, size=SMALL, color=QUIET, ha="right")
        self.sheet.write(self.soft_x + 0.3, y, f"{weight:.3f}", size=NUMBER, color=QUIET, ha="right")
        self.draw_bar(weight, y, color=FAINT)

    def draw_strip(self, vector: Float[np.ndarray, "D"], x: float, y: float, reach: float) -> Axes:
        """Draw a vector as a row of cells."""
        axes = self.sheet.axes(x, y - STRIP / 2, self.strip, STRIP)
        axes.imshow(vector[None], cmap=SIGNED, norm=signed_scale(reach), interpolation="none", aspect="auto")
        frame(axes, 1, len(vector))
        return axes


def worked(shown: Sum) -> list[str]:
    """Return the calculation of the strongest key as lines of numbers."""
    best = int(np.argmax(shown.weights))
    if not shown.weights[best] > 0:
        return ["This query may look at nothing: its weights are all 0."]
    products = " + ".join(
        f"{digits(float(a), within=True)}·{digits(float(b), within=True)}"
        for a, b in zip(shown.query[:4], shown.key[best, :4], strict=True)
    )
    more = " + …" if len(shown.query) > 4 else ""
    scores, scaled, masked = (float(getattr(shown, point)[best]) for point in COLUMNS)
    return [
        f"For “{label(shown.keys[best])}”:  q · k = {products}{more} = {digits(scores)}",
        f"{digits(scores)} ÷ √{len(shown.query)} = {digits(scaled)};  with the mask {digits(masked)};  "
        f"softmax = {exponentials(shown.masked, best)} = {shown.weights[best]:.3f}",
    ]


def exponentials(masked: Float[np.ndarray, "S"], best: int) -> str:
    """Return the quotient that softmax is; of large scores the largest is taken off first, as the program does."""
    scores = masked.astype(np.float64)
    shift = float(scores[best]) if abs(scores[best]) > LARGEST_EXPONENT else 0.0
    powers = np.exp(scores - shift)
    over = f"({digits(float(scores[best]))} − {digits(shift, within=True)})" if shift else digits(float(scores[best]))
    return f"e^{over} ÷ Σ = {digits(float(powers[best]))} ÷ {digits(float(powers.sum()))}"


def caption(shown: Sum) -> str:
    """Return what is shown, in words."""
    which = f"{described(shown.name)}, head {shown.head}, row {shown.row}. "
    return f"{which}Cells: brown below zero, green above, paler towards zero; width of a head {len(shown.query)}."


def digits(number: float, *, within: bool = False) -> str:
    """Return a number with three digits that count; within a formula a negative one in brackets."""
    if math.isinf(number):
        return "−∞" if number < 0 else "∞"
    if abs(number) < SMALLEST_SHOWN:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(number))))
    text = f"{number:.{min(places, 3)}f}".replace("-", "−")
    return f"({text})" if within and number < 0 else text
