"""A map of word vectors: their first two principal components, and the nearest neighbors of some words.

Two dimensions cannot keep all distances: the lists beside the map have the true cosine similarities.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from sightline.errors import InputError
from sightline.tracing.figures.canvas import (
    FAINT,
    INK,
    LABEL,
    MARGIN,
    PAGE,
    POINTS,
    QUIET,
    SMALL,
    WEIGHT,
    Canvas,
    figure_style,
    fit_text,
    text_width,
    token_label,
)
from sightline.tracing.vectors import project_pca, unit_vectors

WORDS, NEIGHBORS, LISTS = 300, 5, 6
"""Defaults: words on the map, neighbors of each listed word, listed words."""
HEIGHT, LIST = 4.2, 1.55
OFFSETS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Where a label may stand beside its point, best position first."""
GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3}
"""Background of a label that lines may cross."""
FURTHER = tuple((right * far, up * far) for far in (1.6, 2.4, 3.2) for right, up in OFFSETS)
"""Further positions for the label of a word that must be named."""


@runtime_checkable
class Neighbor(Protocol):
    """A word near another one."""

    @property
    def word(self) -> str:
        """The word."""

    @property
    def similarity(self) -> float:
        """Cosine similarity to the other word."""


@runtime_checkable
class WordList(Protocol):
    """A bundle, as far as this figure needs it."""

    @property
    def words(self) -> Sequence[str]:
        """The words of the model, most frequent first."""


@runtime_checkable
class HasWordVectors(Protocol):
    """A pipeline, as far as this figure needs it."""

    @property
    def bundle(self) -> WordList:
        """Where the words are listed."""

    def word_vectors(self, words: Sequence[str]) -> Tensor:
        """Return the vector of each word."""

    def neighbors(self, word: str, *, n: int = 10) -> Sequence[Neighbor]:
        """Return the words nearest to a word, nearest first."""


@figure_style()
def embedding_map(
    pipeline: HasWordVectors,
    *,
    words: Iterable[str] = (),
    n: int = NEIGHBORS,
    n_words: int = WORDS,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the words of a pipeline as points, some of them (by default the most frequent) with their neighbors."""
    listed = tuple(pipeline.bundle.words)
    if not listed:
        raise InputError("this model has no word list (words.txt): there is nothing to draw")
    chosen = tuple(dict.fromkeys(words))[:LISTS] or listed[:LISTS]
    near = {word: list(pipeline.neighbors(word, n=n)) for word in chosen}
    beside = [one.word for found in near.values() for one in found]
    shown = list(dict.fromkeys([*chosen, *beside, *listed[:n_words]]))
    vectors = np.asarray(pipeline.word_vectors(shown).float().numpy())
    flat, explained_variance = project_pca(unit_vectors(vectors))
    notes = (
        f"{len(shown)} words by the first two principal components of their unit vectors, which explain "
        f"{explained_variance.sum():.0%} of the variance. Lines lead to the nearest neighbors in all dimensions; the "
        "lists give the cosine similarities."
    )
    canvas = Canvas(width, HEIGHT, title=title, notes=notes)
    wide = width - 2 * MARGIN - LIST - 0.2
    axes = canvas.axes(MARGIN, canvas.top, wide, HEIGHT)
    draw_map(axes, shown, flat, near, size=(wide, HEIGHT))
    draw_lists(canvas, near, left=MARGIN + wide + 0.2)
    return canvas.figure


def draw_map(
    axes: Axes,
    words: Sequence[str],
    flat: Float[np.ndarray, "n 2"],
    near: Mapping[str, Sequence[Neighbor]],
    *,
    size: tuple[float, float],
) -> None:
    """Draw points, lines to neighbors, and as many labels as fit."""
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = np.maximum((high - low) * 0.09, 1e-6)
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
    index = {word: number for number, word in enumerate(words)}
    beside = {one.word for found in near.values() for one in found}
    kinds = [0 if word in near else 1 if word in beside else 2 for word in words]
    for kind, (area, color) in enumerate(((14, WEIGHT), (9, INK), (4, FAINT))):  # one call per kind: a smaller file
        points = flat[[one == kind for one in kinds]]
        axes.scatter(points[:, 0], points[:, 1], s=area, c=color, linewidths=0, zorder=2)
    lines = [(flat[index[word]], flat[index[one.word]]) for word, found in near.items() for one in found]
    axes.add_collection(LineCollection(lines, colors=WEIGHT, linewidths=0.5, alpha=0.55, zorder=1), autolim=False)
    inches: list[list[float]] = ((flat - low + margin) / (high - low + 2 * margin) * np.array(size)).tolist()
    taken = [
        (x - 0.025, y - 0.025, x + 0.025, y + 0.025) for (x, y), kind in zip(inches, kinds, strict=True) if kind < 2
    ]
    for number in sorted(range(len(words)), key=lambda number: kinds[number]):
        write_word(axes, words[number], flat[number], inches[number], kinds[number], taken, size)


def write_word(
    axes: Axes,
    word: str,
    point: Float[np.ndarray, "2"],
    inches: Sequence[float],
    kind: int,
    taken: list[tuple[float, float, float, float]],
    size: tuple[float, float],
) -> None:
    """Write a word beside its point where there is room; drop the label if there is none."""
    points = (LABEL, LABEL - 0.5, SMALL - 0.5)[kind]
    text = token_label(word)
    wide, high = text_width(text, points, bold=kind == 0) + 0.03, points * 1.15 / POINTS
    for right, up in OFFSETS if kind == 2 else OFFSETS + FURTHER:
        x, y = inches[0] + right * (0.045 + wide / 2), inches[1] + up * (0.035 + high / 2)
        box = (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
        if inside and not any(overlap(box, other) for other in taken):
            taken.append(box)
            color = (WEIGHT, INK, QUIET)[kind]
            axes.annotate(
                text,
                (float(point[0]), float(point[1])),
                xytext=((x - inches[0]) * POINTS, (y - inches[1]) * POINTS),
                textcoords="offset points",
                size=points,
                color=color,
                ha="center",
                va="center",
                weight="bold" if kind == 0 else "normal",
                parse_math=False,
                zorder=3,
                bbox=GROUND if kind < 2 else None,
                arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.4} if (right, up) in FURTHER else None,
            )
            return


def overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    """Tell whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw_lists(canvas: Canvas, near: Mapping[str, Sequence[Neighbor]], *, left: float) -> None:
    """Write each listed word with its neighbors and their cosine similarities."""
    line = min(0.128, HEIGHT / max(1, sum(len(found) + 1.6 for found in near.values())))
    size = min(SMALL + 0.5, line * POINTS * 0.8)
    y = canvas.top + line / 2
    for word, found in near.items():
        heading = fit_text(token_label(word), LIST, size + 0.5, bold=True)
        canvas.write(left, y, heading, size=size + 0.5, color=WEIGHT, weight="bold")
        for one in found:
            y += line
            canvas.write(left + 0.08, y, fit_text(token_label(one.word), LIST - 0.5, size), size=size)
            canvas.write(left + LIST, y, f"{one.similarity:.3f}".replace("-", "−"), size=size, color=QUIET, ha="right")
        y += line * 1.6
