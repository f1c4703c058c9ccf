"""A map of word vectors: the two directions in which they differ most, and each chosen word's nearest neighbours.

A map of two dimensions cannot keep all distances: the lists beside it have the true cosines.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.label import POINTS, breadth, fitted, label
from sightline.tracing.figures.sheet import Sheet
from sightline.tracing.figures.style import FAINT, INK, LABEL, MARGIN, PAGE, QUIET, SMALL, WEIGHT
from sightline.tracing.projection import principal, unit_vectors

WORDS, NEIGHBORS, LISTS = 300, 5, 6
"""Words on the map, neighbours of each chosen word, chosen words."""
HEIGHT, LIST = 4.2, 1.55
OFFSETS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Where a label may stand beside its point, the best place first."""
GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3}
"""Of a label that lines may run through."""
FURTHER = tuple((right * far, up * far) for far in (1.6, 2.4, 3.2) for right, up in OFFSETS)
"""Where the label of a word that must be named may stand besides."""


def embedding_map(
    pipeline: Any,
    *,
    words: Iterable[str] = (),
    n: int = NEIGHBORS,
    most: int = WORDS,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the words of a pipeline as points, the chosen ones with their neighbours; by default its most frequent."""
    listed = tuple(pipeline.bundle.words)
    if not listed:
        raise InputError("this model has no list of words (words.txt): there is nothing to draw a map of")
    chosen = tuple(dict.fromkeys(words))[:LISTS] or listed[:LISTS]
    near = {word: list(pipeline.neighbors(word, n=n)) for word in chosen}
    beside = [one.word for found in near.values() for one in found]
    shown = list(dict.fromkeys([*chosen, *beside, *listed[:most]]))
    vectors = np.asarray(pipeline.word_vectors(shown).float().numpy())
    flat, shares = principal(unit_vectors(vectors))
    notes = (
        f"{len(shown)} words by the two directions in which their vectors (of length 1) differ most, which hold "
        f"{shares.sum():.0%} of the variance. Lines lead to the nearest in all dimensions; the lists give the cosines."
    )
    sheet = Sheet(width, HEIGHT, title=title, notes=notes)
    wide = width - 2 * MARGIN - LIST - 0.2
    axes = sheet.axes(MARGIN, sheet.top, wide, HEIGHT)
    draw_map(axes, shown, flat, near, size=(wide, HEIGHT))
    draw_lists(sheet, near, left=MARGIN + wide + 0.2)
    return sheet.figure


def draw_map(
    axes: Axes,
    words: Sequence[str],
    flat: Float[np.ndarray, "n 2"],
    near: dict[str, list[Any]],
    *,
    size: tuple[float, float],
) -> None:
    """Draw points, lines to neighbours, and as many labels as have room."""
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = np.maximum((high - low) * 0.09, 1e-6)
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
    place = {word: number for number, word in enumerate(words)}
    beside = {one.word for found in near.values() for one in found}
    kinds = [0 if word in near else 1 if word in beside else 2 for word in words]
    for kind, (area, color) in enumerate(((14, WEIGHT), (9, INK), (4, FAINT))):  # alike ones at once: a small file
        points = flat[[one == kind for one in kinds]]
        axes.scatter(points[:, 0], points[:, 1], s=area, c=color, linewidths=0, zorder=2)
    lines = [(flat[place[word]], flat[place[one.word]]) for word, found in near.items() for one in found]
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
    """Write a word beside its point where nothing else stands; of a word that was not chosen, or not at all."""
    points = (LABEL, LABEL - 0.5, SMALL - 0.5)[kind]
    text = label(word)
    wide, high = breadth(text, points, bold=kind == 0) + 0.03, points * 1.15 / POINTS
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
    """Say whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw_lists(sheet: Sheet, near: dict[str, list[Any]], *, left: float) -> None:
    """Write each chosen word with its neighbours and their cosines."""
    line = min(0.128, HEIGHT / max(1, sum(len(found) + 1.6 for found in near.values())))
    size = min(SMALL + 0.5, line * POINTS * 0.8)
    y = sheet.top + line / 2
    for word, found in near.items():
        heading = fitted(label(word), LIST, size + 0.5, bold=True)
        sheet.write(left, y, heading, size=size + 0.5, color=WEIGHT, weight="bold")
        for one in found:
            y += line
            sheet.write(left + 0.08, y, fitted(label(one.word), LIST - 0.5, size), size=size)
            sheet.write(left + LIST, y, f"{one.similarity:.3f}".replace("-", "−"), size=size, color=QUIET, ha="right")
        y += line * 1.6
