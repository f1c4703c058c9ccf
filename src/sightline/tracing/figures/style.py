"""Colours, sizes and fonts of all figures: one colour for one idea, a white page, the widths of a paper's columns.

Figures are matplotlib's own objects, never pyplot's. What must be set for everybody while one is made is set within
`our_style` and put back; whoever has another style loaded gets the same figure.
"""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.font_manager import fontManager

COLUMN = 3.3
"""Inches: one column of a paper."""
PAGE = 6.9
"""Inches: both columns, or a slide."""
TALLEST = 8.6
"""Inches that a figure may be high before it is pressed together."""
DPI = 300
MARGIN = 0.06

INK, QUIET, FAINT = "#17202c", "#566273", "#d5dae1"
QUERY, KEY, VALUE, WEIGHT, POSITION = "#c24a00", "#7b3aa8", "#00785a", "#0b5cad", "#6a7100"
"""As in drawing/theme.css, its light design: one colour for one idea, wherever it is drawn."""

WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#f4f7fb", "#c9dcf2", "#85b4e4", "#2f78c4", "#0a3878"])
"""Light is 0, dark is 1, each step darker than the one before it: in grey print it reads the same."""
LINES = LinearSegmentedColormap.from_list("lines", WEIGHTS([0.2 + 0.8 * number / 20 for number in range(21)]))
"""The same without its lightest colours: a fine line must be seen on white."""
MOST_LINEAR = 60
"""Tokens up to which the weights of a matrix are coloured by a linear scale."""
SIGNED = LinearSegmentedColormap.from_list("signed", ["#a8641a", "#dfb27a", "#f5f5f2", "#6fbdb2", "#01403a"])
"""Brown below zero, green above, as in drawing/theme.css; green ends darker, so that grey print tells them apart."""

LABEL, NUMBER, SMALL, TITLE = 7.5, 6.5, 6.0, 9.0
"""Points: tokens, numbers, notes, the title."""
LEAST = 4.8
"""Points below which a label is left out rather than made smaller."""

SCRIPTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Source Han Sans",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "IPAGothic", "PingFang SC", "Hiragino Sans", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai",
    "Noto Emoji", "Arial Unicode MS",
)  # fmt: skip
"""Fonts to take letters from that the first has not, where they are installed."""

LOCK = threading.RLock()
FONT_LOG = logging.getLogger("matplotlib.font_manager")
"""Where matplotlib remarks that a font has no bold letters, which nobody who draws a figure can use."""


def weight_scale(longest: int = 0) -> Normalize:
    """Return the scale of attention weights, always 0 to 1: linear as on the page, half as much is half as dark.

    Among very many tokens most weights are small, and linear all of them would be white: there it goes by the root,
    which the figure says beside its colours.
    """
    return PowerNorm(0.5, vmin=0.0, vmax=1.0) if longest > MOST_LINEAR else Normalize(vmin=0.0, vmax=1.0)


def signed_scale(largest: float) -> Normalize:
    """Return a scale that has 0 in its middle."""
    reach = largest if largest > 0 else 1.0
    return Normalize(-reach, reach)


@cache
def families() -> tuple[str, ...]:
    """Return the fonts to look for letters in; only those there are, for others would be complained about."""
    installed = set(fontManager.get_font_names())
    return ("sans-serif", *(name for name in SCRIPTS if name in installed))


def settings() -> dict[str, Any]:
    """Return what matplotlib is to do differently from its defaults."""
    return {
        "font.family": list(families()),
        "font.sans-serif": ["DejaVu Sans", "Helvetica Neue", "Arial", "sans-serif"],
        "font.size": LABEL,
        "text.parse_math": False,  # a token may be "$x_1^2$", and is meant so
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


@contextmanager
def our_style() -> Iterator[None]:
    """Let matplotlib draw in our style, and afterwards as before; one figure at a time."""
    with LOCK, warnings.catch_warnings(), matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings())  # type: ignore[arg-type]
        # Letters that no font here has: an SVG holds them as text, a PNG shows boxes; `unknown_letters` tells.
        warnings.filterwarnings("ignore", message="Glyph")
        FONT_LOG.addFilter(is_grave)
        try:
            yield
        finally:
            FONT_LOG.removeFilter(is_grave)


def is_grave(record: logging.LogRecord) -> bool:
    """Say whether a remark is more than a warning."""
    return record.levelno > logging.WARNING
