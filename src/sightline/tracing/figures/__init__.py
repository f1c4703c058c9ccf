"""Static figures of a trace or a model, for paper and slide: SVG and PNG by matplotlib.

    attention_both    one attention as lines and as a matrix     heads           all heads of all layers at a glance
    attention_matrix  as a matrix                                calculation     one head and one query, with numbers
    attention_lines   as lines between words                     beam_tree       what the beam kept and gave up
    positions         codes of positions                         embedding_map   words by their vectors, with neighbours
    stations          one token's vector at every station of a layer (from Python only)

`draw` makes one by its kind, `save` writes it. Importing this loads matplotlib, so that whoever may do without a figure
imports it when one is drawn.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.tracing.figures.attention_both import attention_both
from sightline.tracing.figures.attention_lines import attention_lines
from sightline.tracing.figures.attention_matrix import attention_matrix
from sightline.tracing.figures.beam_tree import beam_tree
from sightline.tracing.figures.calculation import calculation
from sightline.tracing.figures.embedding_map import embedding_map
from sightline.tracing.figures.heads import heads
from sightline.tracing.figures.label import unknown_letters
from sightline.tracing.figures.positions import positions
from sightline.tracing.figures.style import COLUMN, DPI, PAGE, our_style
from sightline.tracing.trace import Trace

__all__ = ["COLUMN", "KINDS", "OF_A_MODEL", "PAGE", "default_kind", "draw", "save"]

KINDS: dict[str, Callable[..., Figure]] = {
    "attention": attention_both,
    "matrix": attention_matrix,
    "lines": attention_lines,
    "heads": heads,
    "calculation": calculation,
    "beam": beam_tree,
    "positions": positions,
    "embeddings": embedding_map,
}
"""What can be drawn, and the function that does; its keywords are the options of `draw`."""
OF_A_MODEL = ("positions", "embeddings")
"""Kinds that are drawn from a pipeline (positions also from a trace); the others from a trace."""
FORMATS = ("svg", "png")


def default_kind(trace: Trace, *, chosen: bool = False) -> str:
    """Return what shows most of a trace: lines and matrix where words look across, or where one attention was chosen;
    else all heads at a glance.
    """
    return "attention" if chosen or any("cross_attention" in name for name in trace.attentions) else "heads"


def draw(kind: str, drawn_from: Any, **options: Any) -> Figure:
    """Draw a figure of some kind, from a trace or (KINDS that are OF_A_MODEL) from a pipeline.

    Options every kind has: `title`, and `width` in inches (COLUMN or PAGE). Attention is chosen by `attention` (cross,
    decoder, encoder or a whole name), `layer` and `head`; `words=True` takes words instead of tokens.
    """
    if kind not in KINDS:
        raise InputError(unknown_name(kind, list(KINDS), what="figure"))
    if (kind in OF_A_MODEL) == isinstance(drawn_from, Trace) and kind != "positions":
        raise InputError(f"the figure {kind!r} is drawn from a {'model' if kind in OF_A_MODEL else 'trace'}")
    with our_style():
        return KINDS[kind](drawn_from, **options)


def save(figure: Figure, path: Path | str) -> str:
    """Write a figure as SVG, its text as text, or as PNG; return the letters that no font here has.

    An SVG shows those by the fonts of whoever opens it, a PNG as boxes. The same figure is always the same file.
    """
    path = Path(path)
    format_ = path.suffix.lower().removeprefix(".")
    if format_ not in FORMATS:
        raise InputError(
            f"{path}: a figure is saved as .svg or .png, not as {path.suffix or 'a file without ending'!r}"
        )
    metadata = {"Date": None} if format_ == "svg" else {}
    with our_style():
        figure.savefig(path, format=format_, dpi=DPI, metadata=metadata)
        texts = [text.get_text() for text in figure.findobj(Text)]
        return unknown_letters(texts)
