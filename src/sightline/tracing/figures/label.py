"""Tokens as they are written beside a figure: in one line, nothing invisible, not too long."""

import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from sightline.tracing.figures.style import DPI, LABEL, LEAST, families
from sightline.tracing.passage import Token, Word

LONGEST = 16
"""Characters of a label."""
VISIBLE = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
JOINERS = "\u200c\u200d"
"""Invisible, but they shape the letters beside them in Persian, Hindi and emoji."""
POINTS = 72.0
"""In an inch."""
GAP = 1.12
"""Height of a line, in sizes of its letters."""


def label(token: Token | Word | str, *, longest: int = LONGEST) -> str:
    """Return what is written for a token: without the blank before it, what cannot be seen written out."""
    text = token if isinstance(token, str) else token.text
    return shortened(plain(text.strip(" ") or text), longest)


def plain(text: str) -> str:
    """Return a text with nothing in it that a line cannot show, or that would turn the rest around."""
    blank = not text.strip(" " + JOINERS)  # then even what may stay invisible beside letters is all there is
    return "".join(character if is_shown(character) and not blank else written_out(character) for character in text)


def is_shown(character: str) -> bool:
    """Say whether a character can stand in a label."""
    return character.isprintable() or character in JOINERS


def written_out(character: str) -> str:
    """Return a sign for a character that cannot be seen."""
    if character in VISIBLE:
        return VISIBLE[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


@cache
def scales() -> Any:
    """Return what measures texts, as finely as a PNG is drawn: at few points an inch letters are rounded."""
    return FigureCanvasAgg(Figure((1, 1), dpi=DPI)).get_renderer()  # type: ignore[no-untyped-call]


def breadth(text: str, size: float, *, bold: bool = False) -> float:
    """Return the inches a text takes in a line; never less than a viewer's own fonts will need for it."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    measured = scales().get_text_width_height_descent(text, font, False)[0]
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return max(float(measured) / DPI, wide * size / POINTS)


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return a text that fits into its place, shortened if it must be."""
    while len(text) > 2 and breadth(text, size, bold=bold) > room:
        text = text[:-2].rstrip("…") + "…"
    return text


def broadest(texts: Sequence[str], size: float) -> float:
    """Return the breadth of the broadest text."""
    return max((breadth(text, size) for text in set(texts)), default=0.0)


def fitting(pitch: float, *, most: float = LABEL) -> tuple[float, int]:
    """Return the size of labels that stand `pitch` inches apart, and of how many one is written: 1 for all."""
    size = min(most, pitch * POINTS / GAP)
    if size >= LEAST:
        return size, 1
    return LEAST, math.ceil(LEAST * GAP / (pitch * POINTS))


def unknown_letters(texts: Sequence[str]) -> str:
    """Return the characters that no font here has, each once: a PNG shows boxes for them."""
    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in families()]
    letters = dict.fromkeys(character for text in texts for character in text)
    return "".join(
        letter
        for letter in letters
        if letter not in "\n" + JOINERS and not any(f.get_char_index(ord(letter)) for f in fonts)
    )
