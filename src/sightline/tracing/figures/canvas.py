"""A blank page measured in inches from its upper left corner, with an optional title and notes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.text import Text

from sightline.tracing.figures.label import escape_invisible, text_width
from sightline.tracing.figures.style import INK, MARGIN, QUIET, SMALL, TITLE, WEIGHTS, weight_scale

TITLE_LINE, NOTE_LINE = 0.17, 0.115
BAR = 0.34
"""Inches for the color bar of weights, with its ticks."""


class Canvas:
    """A figure with content of the given height; title and notes are added to it."""

    def __init__(self, width: float, height: float, *, title: str | None = None, notes: str = "") -> None:
        room = width - 2 * MARGIN
        titles = wrap(escape_invisible(title), room, TITLE, bold=True) if title else []
        lines = wrap(notes, room, SMALL) if notes else []
        self.top = MARGIN + TITLE_LINE * len(titles) + (0.05 if titles else 0.0)
        """Top of the content."""
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
        """Return axes at a position of the page; bare ones have no frame and no ticks."""
        box = (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        if bare:
            axes.axis("off")
        return axes

    def page(self) -> Axes:
        """Return bare axes over the whole page, with coordinates in inches from the upper left."""
        axes = self.axes(0.0, 0.0, self.width, self.height)
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        return axes

    def write(self, x: float, y: float, text: str, *, size: float, color: str = INK, **how: Any) -> Text:
        """Write a text at a position of the page, verbatim: nothing in it is a formula."""
        how = {"va": "center_baseline", "ha": "left", **how}
        return self.figure.text(
            x / self.width, 1 - y / self.height, text, size=size, color=color, parse_math=False, **how
        )

    def weight_bar(self, left: float, top: float, *, width: float = 1.3, n_tokens: int = 0) -> None:
        """Draw the color bar of attention weights over this many tokens; its label tells if it is not linear."""
        scale = weight_scale(n_tokens)
        is_linear = not isinstance(scale, PowerNorm)
        words = "attention weight" if is_linear else "attention weight (root scale)"
        left = min(left, self.width - MARGIN - width - 0.09 - text_width(words, SMALL))  # long labels leave little room
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


def wrap(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """Wrap a text into lines of this many inches; split words that are too long for a line."""
    lines = [""]
    for word in (piece for whole in text.split() for piece in split_word(whole, room, size, bold=bold)):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size, bold=bold) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def split_word(word: str, room: float, size: float, *, bold: bool = False) -> Iterator[str]:
    """Yield a word in parts that fit into this many inches: Chinese and Thai have no spaces."""
    while len(word) > 1 and text_width(word, size, bold=bold) > room:
        n = next((n for n in range(len(word) - 1, 1, -1) if text_width(word[:n], size, bold=bold) <= room), 1)
        yield word[:n]
        word = word[n:]
    yield word
