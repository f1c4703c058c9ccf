"""A white page measured in inches from its upper left corner, with a title if one is wanted and a line of notes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.text import Text

from sightline.tracing.figures.label import breadth, plain
from sightline.tracing.figures.style import INK, MARGIN, QUIET, SMALL, TITLE, WEIGHTS, weight_scale

TITLE_LINE, NOTE_LINE = 0.17, 0.115
BAR = 0.34
"""Inches that the scale of weights needs, with its numbers."""


class Sheet:
    """A figure whose content is as high as it was said to be; title and notes are added to that."""

    def __init__(self, width: float, height: float, *, title: str | None = None, notes: str = "") -> None:
        room = width - 2 * MARGIN
        titles = wrapped(plain(title), room, TITLE, bold=True) if title else []
        lines = wrapped(notes, room, SMALL) if notes else []
        self.top = MARGIN + TITLE_LINE * len(titles) + (0.05 if titles else 0.0)
        """Where the content begins."""
        self.bottom = self.top + height
        self.width = width
        self.height = self.bottom + NOTE_LINE * len(lines) + (0.06 if lines else 0.0) + MARGIN
        self.figure = Figure((self.width, self.height), facecolor="white")
        for number, line in enumerate(titles):
            self.write(MARGIN, MARGIN + TITLE_LINE * (number + 0.5), line, size=TITLE, weight="bold")
        for number, line in enumerate(lines):
            y = self.bottom + 0.06 + NOTE_LINE * (number + 0.5)
            self.write(MARGIN, y, line, size=SMALL, color=QUIET)

    def axes(self, left: float, top: float, width: float, height: float, *, bare: bool = True) -> Axes:
        """Return axes at a place of the page; bare ones have no frame and no ticks."""
        box = (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        if bare:
            axes.axis("off")
        return axes

    def page(self) -> Axes:
        """Return bare axes over all of the page, whose coordinates are inches from the upper left."""
        axes = self.axes(0.0, 0.0, self.width, self.height)
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        return axes

    def write(self, x: float, y: float, text: str, *, size: float, color: str = INK, **how: Any) -> Text:
        """Write a text beside a place of the page, as it is: nothing in it is a formula."""
        how = {"va": "center_baseline", "ha": "left", **how}
        return self.figure.text(
            x / self.width, 1 - y / self.height, text, size=size, color=color, parse_math=False, **how
        )

    def weight_bar(self, left: float, top: float, *, width: float = 1.3, longest: int = 0) -> None:
        """Draw the scale of the attention weights of so many tokens; one that is not linear says so."""
        scale = weight_scale(longest)
        is_linear = not isinstance(scale, PowerNorm)
        words = "attention weight" if is_linear else "attention weight (root scale)"
        left = min(left, self.width - MARGIN - width - 0.09 - breadth(words, SMALL))  # long labels leave little room
        axes = self.axes(left, top + 0.05, width, 0.07, bare=False)
        axes.imshow(
            np.asarray(scale.inverse(np.linspace(0.0, 1.0, 128)))[None],
            cmap=WEIGHTS,
            norm=scale,
            aspect="auto",
            interpolation="none",
            extent=(0, 1, 0, 1),
        )
        marks = (0.0, 0.25, 0.5, 0.75, 1.0) if is_linear else (0.0, 0.05, 0.25, 0.5, 1.0)
        axes.set_xticks([float(scale(mark)) for mark in marks], [f"{mark:g}" for mark in marks])
        axes.set_yticks([])
        axes.tick_params(labelsize=SMALL)
        self.write(left + width + 0.09, top + 0.085, words, size=SMALL, color=QUIET)


def wrapped(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """Return a text as lines that fit into so many inches; a word that is too long for one is cut into several."""
    lines = [""]
    for word in (piece for whole in text.split() for piece in pieces(whole, room, size, bold=bold)):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and breadth(longer, size, bold=bold) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def pieces(word: str, room: float, size: float, *, bold: bool = False) -> Iterator[str]:
    """Yield a word in parts that fit into so many inches: Chinese and Thai have no blanks."""
    while len(word) > 1 and breadth(word, size, bold=bold) > room:
        n = next((n for n in range(len(word) - 1, 1, -1) if breadth(word[:n], size, bold=bold) <= room), 1)
        yield word[:n]
        word = word[n:]
    yield word
