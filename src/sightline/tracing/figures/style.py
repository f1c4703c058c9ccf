"""Colors, sizes and fonts of all figures: one color per concept, a white page, the widths of a paper's columns.

Figures are plain matplotlib objects, made without pyplot. Global settings are changed only within `figure_style` and
restored after: a figure looks the same whatever style the caller has loaded.
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
MAX_HEIGHT = 8.6
"""Inches: taller figures are scaled down."""
DPI = 300
MARGIN = 0.06

INK, QUIET, FAINT = "#17202c", "#566273", "#d5dae1"
QUERY, KEY, VALUE, WEIGHT, POSITION = "#c24a00", "#7b3aa8", "#00785a", "#0b5cad", "#6a7100"
"""As in the light theme of drawing/theme.css: one color per concept."""

WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#f4f7fb", "#c9dcf2", "#85b4e4", "#2f78c4", "#0a3878"])
"""Light is 0, dark is 1, with monotonic lightness: it reads the same in grayscale."""
LINES = LinearSegmentedColormap.from_list("lines", WEIGHTS([0.2 + 0.8 * number / 20 for number in range(21)]))
"""The same without its lightest colors: a thin line must be visible on white."""
MAX_LINEAR_TOKENS = 60
"""Matrices with more tokens use a square-root color scale."""
SIGNED = LinearSegmentedColormap.from_list("signed", ["#a8641a", "#dfb27a", "#f5f5f2", "#6fbdb2", "#01403a"])
"""Brown below zero, green above, as in drawing/theme.css; green ends darker, to differ in grayscale."""

LABEL, NUMBER, SMALL, TITLE = 7.5, 6.5, 6.0, 9.0
"""Points: tokens, numbers, notes, the title."""
MIN_LABEL = 4.8
"""Points: labels that would be smaller are left out."""

SCRIPTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "Source Han Sans",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "IPAGothic", "PingFang SC", "Hiragino Sans", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai",
    "Noto Emoji", "Arial Unicode MS",
)  # fmt: skip
"""Fallback fonts for characters the first font lacks, where installed."""

LOCK = threading.RLock()
FONT_LOG = logging.getLogger("matplotlib.font_manager")
"""Where matplotlib warns that a font has no bold weight, which is of no use to the caller."""


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


@cache
def families() -> tuple[str, ...]:
    """Return the installed fonts to use; matplotlib warns about missing ones."""
    installed = set(fontManager.get_font_names())
    return ("sans-serif", *(name for name in SCRIPTS if name in installed))


def settings() -> dict[str, Any]:
    """Return the matplotlib settings that differ from its defaults."""
    return {
        "font.family": list(families()),
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


@contextmanager
def figure_style() -> Iterator[None]:
    """Apply our matplotlib style, and restore the previous one after; one figure at a time.

    As a decorator, it applies the style during every call of a function, whose signature it keeps.
    """
    with LOCK, warnings.catch_warnings(), matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings())  # type: ignore[arg-type]
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
