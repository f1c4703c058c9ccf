"""Every figure of these documents, by the name of its file in docs/figures."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from making.story import DAY, LOOKING, LOOKING_ACROSS, LOOKING_BACK, MONTH, READ_MONTH, WRITTEN_MONTH, Story
from sightline.tracing.figures import draw, save
from sightline.tracing.figures.stations import stations
from sightline.tracing.figures.style import our_style

WORDS = ("March", "Monday", "Germany", "week")
"""Whose neighbours the map shows."""

FIGURES: dict[str, Callable[[Story], Figure]] = {
    "attention": lambda story: draw("attention", story.trace),
    "embedding": lambda story: stations(story.trace, layer=None, row=MONTH),
    "positions": lambda story: draw("positions", story.translator),
    "words": lambda story: draw("embeddings", story.translator, words=WORDS),
    "calculation": lambda story: draw("calculation", story.trace, row=DAY, **LOOKING),
    "lines": lambda story: draw("lines", story.trace, **LOOKING),
    "layer": lambda story: stations(story.trace, layer=0, row=DAY),
    "heads": lambda story: draw("heads", story.trace),
    "mask": lambda story: draw("calculation", story.trace, row=READ_MONTH, **LOOKING_BACK),
    "matrix": lambda story: draw("matrix", story.trace, **LOOKING_BACK),
    "across": lambda story: draw("calculation", story.trace, row=WRITTEN_MONTH, **LOOKING_ACROSS),
    "beam": lambda story: draw("beam", story.searched),
}


def draw_all(story: Story, folder: Path) -> None:
    """Draw every figure anew, and leave no other there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, figure in FIGURES.items():
        with our_style():
            save(figure(story), folder / f"{name}.svg")
