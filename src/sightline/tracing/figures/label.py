"""Labels of tokens in figures: one line, nothing invisible, not too long."""

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from sightline.tracing.figures.style import DPI, LABEL, MIN_LABEL, families
from sightline.tracing.tokenized_text import Token, Word

MAX_CHARACTERS = 16
"""Maximum length of a label."""
VISIBLE = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
JOINERS = "\u200c\u200d"
"""Invisible, but they shape the letters beside them in Persian, Hindi and emoji."""
POINTS = 72.0
"""Per inch."""
GAP = 1.12
"""Line height, as a multiple of the font size."""


def label(token: Token | Word | str, *, max_characters: int = MAX_CHARACTERS) -> str:
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


def fit_text(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Shorten a text until it fits into this many inches."""
    while len(text) > 2 and text_width(text, size, bold=bold) > room:
        text = text[:-2].rstrip("…") + "…"
    return text


def max_text_width(texts: Sequence[str], size: float) -> float:
    """Return the width of the widest text in inches."""
    return max((text_width(text, size) for text in set(texts)), default=0.0)


def fit_labels(pitch: float, *, max_size: float = LABEL) -> tuple[float, int]:
    """Return the font size of labels `pitch` inches apart, and n where only every n-th label fits."""
    size = min(max_size, pitch * POINTS / GAP)
    if size >= MIN_LABEL:
        return size, 1
    return MIN_LABEL, math.ceil(MIN_LABEL * GAP / (pitch * POINTS))


def missing_glyphs(texts: Sequence[str]) -> str:
    """Return the characters that no installed font has, each once: a PNG shows boxes for them."""
    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in families()]
    letters = dict.fromkeys(character for text in texts for character in text)
    return "".join(
        letter
        for letter in letters
        if letter not in "\n" + JOINERS and not any(f.get_char_index(ord(letter)) for f in fonts)
    )
