"""The page of every figure: colors, fonts, token labels, and a canvas measured in inches.

Figures are plain matplotlib objects, made without pyplot.
"""

import logging
import math
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from sightline.tracing.tokenized_text import Token, Word

COLUMN = 3.3
"""Inches: one column of a paper."""
PAGE = 6.9
"""Inches: both columns, or a slide."""
MAX_HEIGHT = 8.6
"""Inches: taller figures are scaled down."""
DPI = 300
MARGIN = 0.06

LABEL, NUMBER, SMALL, TITLE = 7.5, 6.5, 6.0, 9.0
"""Points: tokens, numbers, notes, the title."""
MIN_LABEL = 4.8
"""Points: labels that would be smaller are left out."""
POINTS = 72.0
"""Per inch."""

INK, QUIET, FAINT = "#17202c", "#566273", "#d5dae1"
QUERY, KEY, VALUE, WEIGHT, POSITION = "#c24a00", "#7b3aa8", "#00785a", "#0b5cad", "#6a7100"
"""As in the light theme of page/theme.css: one color per concept."""

WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#f4f7fb", "#c9dcf2", "#85b4e4", "#2f78c4", "#0a3878"])
"""Light is 0, dark is 1, with monotonic lightness: it reads the same in grayscale."""
LINES = LinearSegmentedColormap.from_list("lines", WEIGHTS([0.2 + 0.8 * number / 20 for number in range(21)]))
"""The same without its lightest colors: a thin line must be visible on white."""
SIGNED = LinearSegmentedColormap.from_list("signed", ["#a8641a", "#dfb27a", "#f5f5f2", "#6fbdb2", "#01403a"])
"""Brown below zero, green above, as in page/theme.css; green ends darker, to differ in grayscale."""
MAX_LINEAR_TOKENS = 60
"""Matrices with more tokens use a square-root color scale."""


def weight_scale(n_tokens: int = 0) -> Normalize:
    """Return the color scale of attention weights, always 0 to 1: linear, as on the page.

    Among very many tokens most weights are small, and would all be white on a linear scale: there it is a square root,
    as the label of the color bar tells.
    """
    return PowerNorm(0.5, vmin=0.0, vmax=1.0) if n_tokens > MAX_LINEAR_TOKENS else Normalize(vmin=0.0, vmax=1.0)


def signed_scale(limit: float) -> Normalize:
    """Return a scale centered on 0."""
    limit = limit if limit > 0 else 1.0
    return Normalize(-limit, limit)


FALLBACK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Source Han Sans",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "IPAGothic", "PingFang SC", "Hiragino Sans", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai",
    "Noto Emoji", "Arial Unicode MS",
)  # fmt: skip
"""For characters the first font lacks, where installed."""

STYLE_LOCK = threading.RLock()
FONT_LOG = logging.getLogger("matplotlib.font_manager")
"""Where matplotlib warns that a font has no bold weight, which is of no use to the caller."""


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply our matplotlib style, and restore the previous one after; one figure at a time.

    A figure looks the same whatever style the caller has loaded; global settings are changed nowhere else.
    As a decorator, it applies the style during every call of a function, whose signature it keeps.
    """
    with STYLE_LOCK, warnings.catch_warnings(), matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib_settings())  # type: ignore[arg-type]
        # Characters that no font has: an SVG keeps them as text, a PNG shows boxes; `missing_glyphs` reports them.
        warnings.filterwarnings("ignore", message="Glyph")
        FONT_LOG.addFilter(is_error)
        try:
            yield
        finally:
            FONT_LOG.removeFilter(is_error)


def is_error(record: logging.LogRecord) -> bool:
    """Tell whether a log record is more than a warning."""
    return record.levelno > logging.WARNING


def matplotlib_settings() -> dict[str, Any]:
    """Return the matplotlib settings that differ from its defaults."""
    return {
        "font.family": list(font_families()),
        "font.sans-serif": ["DejaVu Sans", "Helvetica Neue", "Arial", "sans-serif"],
        "font.size": LABEL,
        "text.parse_math": False,  # a token may be "$x_1^2$", literally
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "axes.labelsize": LABEL,
        "axes.unicode_minus": True,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelsize": NUMBER,
        "ytick.labelsize": NUMBER,
        "xtick.major.size": 2.0,
        "ytick.major.size": 2.0,
        "xtick.major.width": 0.5,
        "ytick.major.width": 0.5,
        "xtick.major.pad": 2.0,
        "ytick.major.pad": 2.0,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "sightline",  # the same figure is the same file
    }


@cache
def font_families() -> tuple[str, ...]:
    """Return the installed fonts to use; matplotlib warns about missing ones."""
    installed = set(fontManager.get_font_names())
    return ("sans-serif", *(name for name in FALLBACK_FONTS if name in installed))


MAX_CHARACTERS = 16
"""Maximum length of a label."""
VISIBLE = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
JOINERS = "\u200c\u200d"
"""Invisible, but they shape the letters beside them in Persian, Hindi and emoji."""


def token_label(token: Token | Word | str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the label of a token: without leading spaces, invisible characters escaped."""
    text = token if isinstance(token, str) else token.text
    return shorten(escape_invisible(text.strip(" ") or text), max_characters)


def escape_invisible(text: str) -> str:
    """Escape characters that a line cannot show, or that would change the direction of the rest."""
    blank = not text.strip(" " + JOINERS)  # joiners with nothing to join
    return "".join(
        character if is_shown(character) and not blank else escape_character(character) for character in text
    )


def is_shown(character: str) -> bool:
    """Tell whether a character can be shown in a label."""
    return character.isprintable() or character in JOINERS


def escape_character(character: str) -> str:
    """Return a visible symbol or escape for an invisible character."""
    if character in VISIBLE:
        return VISIBLE[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def shorten(text: str, max_characters: int) -> str:
    """Shorten a text to this many characters."""
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def missing_glyphs(texts: Sequence[str]) -> str:
    """Return the characters that no installed font has, each once: a PNG shows boxes for them."""
    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in font_families()]
    letters = dict.fromkeys(character for text in texts for character in text)
    return "".join(
        letter
        for letter in letters
        if letter not in "\n" + JOINERS and not any(f.get_char_index(ord(letter)) for f in fonts)
    )


@cache
def text_renderer() -> Any:
    """Return a renderer that measures texts at the resolution of a PNG: at a lower one, glyph widths are rounded."""
    return FigureCanvasAgg(Figure((1, 1), dpi=DPI)).get_renderer()  # type: ignore[no-untyped-call]


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a text in inches, at least what a viewer's own fonts will need."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    measured = text_renderer().get_text_width_height_descent(text, font, False)[0]
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return max(float(measured) / DPI, wide * size / POINTS)


def max_text_width(texts: Sequence[str], size: float) -> float:
    """Return the width of the widest text in inches."""
    return max((text_width(text, size) for text in set(texts)), default=0.0)


def fit_text(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Shorten a text until it fits into this many inches."""
    while len(text) > 2 and text_width(text, size, bold=bold) > room:
        text = text[:-2].rstrip("…") + "…"
    return text


LINE_HEIGHT = 1.12
"""Of a label, as a multiple of the font size."""


def fit_labels(pitch: float, *, max_size: float = LABEL) -> tuple[float, int]:
    """Return the font size of labels `pitch` inches apart, and n where only every n-th label fits."""
    size = min(max_size, pitch * POINTS / LINE_HEIGHT)
    if size >= MIN_LABEL:
        return size, 1
    return MIN_LABEL, math.ceil(MIN_LABEL * LINE_HEIGHT / (pitch * POINTS))


def wrap_text(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
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


TITLE_LINE, NOTE_LINE = 0.17, 0.115
BAR = 0.34
"""Inches for the color bar of weights, with its ticks."""


class Canvas:
    """A figure with content of the given height; title and notes are added to it."""

    def __init__(self, width: float, height: float, *, title: str | None = None, notes: str = "") -> None:
        room = width - 2 * MARGIN
        titles = wrap_text(escape_invisible(title), room, TITLE, bold=True) if title else []
        lines = wrap_text(notes, room, SMALL) if notes else []
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


def draw_frame(axes: Axes, n_rows: int, n_columns: int) -> None:
    """Draw a thin frame around a matrix."""
    x, y = [-0.5, n_columns - 0.5, n_columns - 0.5, -0.5, -0.5], [-0.5, -0.5, n_rows - 0.5, n_rows - 0.5, -0.5]
    axes.plot(x, y, color=FAINT, linewidth=0.6, clip_on=False)
