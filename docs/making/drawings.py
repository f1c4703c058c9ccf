"""Every figure of these documents, by its file name in docs/figures."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from making.example import CROSS_HEAD, DAY, DECODER_HEAD, ENCODER_HEAD, MONTH, READ_MONTH, WRITTEN_MONTH, Example
from sightline.tracing.figures import draw, residual_stream, save

WORDS = ("March", "Monday", "Germany", "week")
"""Words whose neighbors the map shows."""

FIGURES: dict[str, Callable[[Example], Figure]] = {
    "attention": lambda example: draw("attention", example.trace),
    "embedding": lambda example: residual_stream(example.trace, layer=None, row=MONTH),
    "positions": lambda example: draw("positions", example.translator),
    "words": lambda example: draw("embeddings", example.translator, words=WORDS),
    "calculation": lambda example: draw("calculation", example.trace, row=DAY, **ENCODER_HEAD),
    "lines": lambda example: draw("lines", example.trace, **ENCODER_HEAD),
    "layer": lambda example: residual_stream(example.trace, layer=0, row=DAY),
    "heads": lambda example: draw("heads", example.trace),
    "mask": lambda example: draw("calculation", example.trace, row=READ_MONTH, **DECODER_HEAD),
    "matrix": lambda example: draw("matrix", example.trace, **DECODER_HEAD),
    "across": lambda example: draw("calculation", example.trace, row=WRITTEN_MONTH, **CROSS_HEAD),
    "beam": lambda example: draw("beam", example.searched),
}


def draw_all(example: Example, folder: Path) -> None:
    """Redraw every figure, and delete all others."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, figure in FIGURES.items():
        save(figure(example), folder / f"{name}.svg")
