"""Static figures of a trace or a model, for papers and slides: SVG and PNG by matplotlib.

    attention_both    one attention as lines and as a matrix     heads           all heads of all layers at a glance
    attention_matrix  one attention as a matrix                  calculation     one head and one query, with numbers
    attention_lines   one attention as lines between words       beam_tree       hypotheses kept and pruned by a beam
    positions         position encodings                         embedding_map   word vectors by PCA, with neighbors
    residual_stream   one token's vector at every stage of a layer (from Python only)

Each is a function with its own options, as defined in the module of the same name. `draw` calls one by its kind, as the
command line does; `save` writes a figure. Importing this package loads matplotlib: import it only where a figure is
drawn.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

from sightline.config import unknown_name
from sightline.errors import InputError
from sightline.model import Model
from sightline.tracing.figures.attention import attention_both, attention_lines, attention_matrix
from sightline.tracing.figures.beam_tree import beam_tree
from sightline.tracing.figures.calculation import calculation
from sightline.tracing.figures.canvas import COLUMN, DPI, PAGE, figure_style, missing_glyphs
from sightline.tracing.figures.embedding_map import HasWordVectors, embedding_map
from sightline.tracing.figures.heads import heads
from sightline.tracing.figures.positions import positions
from sightline.tracing.figures.residual_stream import residual_stream
from sightline.tracing.trace import Trace
from sightline.tracing.vectors import HasModel

__all__ = [
    "COLUMN",
    "KINDS",
    "MODEL_KINDS",
    "PAGE",
    "attention_both",
    "attention_lines",
    "attention_matrix",
    "beam_tree",
    "calculation",
    "default_kind",
    "draw",
    "embedding_map",
    "heads",
    "positions",
    "residual_stream",
    "save",
]

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
"""The kinds of figures and the functions that draw them; their keywords are the options of `draw`."""
MODEL_KINDS = ("positions", "embeddings")
"""Kinds drawn from a model or pipeline (positions also from a trace); the others are drawn from a trace."""
FORMATS = ("svg", "png")


def default_kind(trace: Trace, *, chosen: bool = False) -> str:
    """Return the kind that shows most of a trace: "attention" if there is cross-attention, or if one attention was
    chosen; else "heads".
    """
    return "attention" if chosen or any("cross_attention" in name for name in trace.attentions) else "heads"


def draw(kind: str, drawn_from: Trace | Model | HasModel | HasWordVectors, **options: Any) -> Figure:
    """Draw a figure by its kind, from a trace or (`MODEL_KINDS`) from a model or pipeline.

    `options` are those of the function in `KINDS`. Every kind takes `title`, and `width` in inches (COLUMN or PAGE).
    `attention` (cross, decoder, encoder or a full name), `layer` and `head` select an attention; `words=True` shows
    words instead of tokens.
    """
    if kind not in KINDS:
        raise InputError(unknown_name(kind, list(KINDS), what="figure"))
    if (kind in MODEL_KINDS) == isinstance(drawn_from, Trace) and kind != "positions":
        raise InputError(f"the figure {kind!r} is drawn from a {'model' if kind in MODEL_KINDS else 'trace'}")
    return KINDS[kind](drawn_from, **options)


def save(figure: Figure, path: Path | str) -> str:
    """Write a figure as SVG, its text as text, or as PNG; return the characters that no installed font has.

    An SVG shows those with the viewer's fonts, a PNG as boxes. The same figure always gives the same file.
    """
    path = Path(path)
    format_ = path.suffix.lower().removeprefix(".")
    if format_ not in FORMATS:
        raise InputError(
            f"{path}: a figure is saved as .svg or .png, not as {path.suffix or 'a file without extension'!r}"
        )
    metadata = {"Date": None} if format_ == "svg" else {}
    with figure_style():
        figure.savefig(path, format=format_, dpi=DPI, metadata=metadata)
        texts = [text.get_text() for text in figure.findobj(Text)]
        return missing_glyphs(texts)
