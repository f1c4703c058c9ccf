"""Codes of positions: the matrix position × depth, the curves of chosen depths, and how alike positions are (3.5).

The codes are read from a model or from a trace. A model that turns queries and keys instead of adding a code (rotary)
is shown by the sines and cosines of its angles.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightline.errors import InputError
from sightline.tracing.figures.sheet import Sheet
from sightline.tracing.figures.style import INK, LABEL, PAGE, POSITION, QUIET, SIGNED, signed_scale
from sightline.tracing.position_codes import position_codes, similarities, sinusoids
from sightline.tracing.trace import Trace

POSITIONS = 64
"""So many are shown, unless it is said otherwise."""
MOST_CURVED = 64
"""Positions over which curves are drawn."""
CURVES = ((POSITION, "-"), (INK, (0, (5, 1.5))), ("#a8b03a", (0, (1.2, 1.2))), (QUIET, (0, (5, 1.5, 1.2, 1.5))))
"""Colours, and kinds of line, which grey print tells apart too."""
HEIGHT = 3.5


def traced_codes(trace: Trace) -> Float[np.ndarray, "T E"]:
    """Return the codes that were added in a trace, one for each token."""
    for name in trace.names:
        if name.endswith(".embedding.positions"):
            return trace[name]
    width, kind = trace.model.get("d_model"), str(trace.model.get("positions"))
    if kind.startswith("sinusoidal") and isinstance(width, int):
        return sinusoids(POSITIONS, width, kind=kind)
    raise InputError("this trace has no codes of positions: make it with probes=('*.embedding.positions',)")


def kind_of(drawn_from: Any) -> str:
    """Return what must be said of codes that are not added to the embedding."""
    config = getattr(getattr(drawn_from, "model", drawn_from), "config", None)
    is_rotary = getattr(config, "positions", None) == "rotary"
    return "Sines and cosines of the angles by which queries and keys are turned. " if is_rotary else ""


def chosen_depths(width: int) -> list[int]:
    """Return depths to draw as curves: a fast wave, a slow one, and two between."""
    return sorted({min(width - 1, int(width * share)) & ~1 for share in (0.0, 0.14, 0.28, 0.5)})


def positions(
    drawn_from: Any,
    *,
    n: int = POSITIONS,
    depths: Sequence[int] | None = None,
    title: str | None = None,
    width: int | float = PAGE,
) -> Figure:
    """Draw the position codes of a model, a pipeline, or a trace."""
    codes = traced_codes(drawn_from) if isinstance(drawn_from, Trace) else position_codes(drawn_from, n=n)
    n_positions, n_depths = codes.shape
    curves = chosen_depths(n_depths) if depths is None else list(depths)
    if strange := [depth for depth in curves if not 0 <= depth < n_depths]:
        raise InputError(f"there is no depth {strange[0]}: depths are numbered from 0 to {n_depths - 1}")
    notes = f"{kind_of(drawn_from)}The first {n_positions} positions, {n_depths} deep. "
    notes += "Similarity: cosine of the angle between two codes."
    reach = float(np.abs(codes).max())
    notes += "" if 0.95 < reach <= 1 else f" The colours of the matrix reach from −{reach:.3g} to {reach:.3g}."
    sheet = Sheet(width, HEIGHT, title=title, notes=notes)
    left, gap, bar = 0.42, 0.62, 0.42
    square = 1.42
    wide = width - left - gap - square - bar - 0.12
    top, height = sheet.top + 0.2, HEIGHT - 0.2 - 0.42
    matrix = sheet.axes(left, top, wide, height, bare=False)
    draw_matrix(matrix, codes)
    x = left + wide + gap
    alike = sheet.axes(x, top, square, square, bare=False)
    draw_similarity(alike, codes)
    y = top + square + 0.56
    curve_axes = sheet.axes(x, y, square, top + height - y, bare=False)
    draw_curves(curve_axes, codes, curves)
    heading(matrix, "position × depth")
    heading(alike, "similarity of positions")
    heading(curve_axes, "chosen depths" if n_positions <= MOST_CURVED else f"chosen depths, first {MOST_CURVED}")
    draw_scale(sheet, x + square + 0.1, top, square)
    return sheet.figure


def draw_matrix(axes: Axes, codes: Float[np.ndarray, "T E"]) -> None:
    """Draw all codes, a row for each position."""
    reach = float(np.abs(codes).max())
    axes.imshow(codes, cmap=SIGNED, norm=signed_scale(reach), interpolation="none", aspect="auto")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # of a few depths too, none is a half
    axes.set_xlabel("depth")
    axes.set_ylabel("position")


def draw_similarity(axes: Axes, codes: Float[np.ndarray, "T E"]) -> None:
    """Draw how alike every two positions are."""
    axes.imshow(similarities(codes), cmap=SIGNED, norm=signed_scale(1.0), interpolation="none", aspect="auto")
    axes.set_xlabel("position")
    axes.set_ylabel("position")


def draw_curves(axes: Axes, codes: Float[np.ndarray, "T E"], depths: Sequence[int]) -> None:
    """Draw some depths over the positions, each named at its end; the fast ones among many would be a black area."""
    codes = codes[:MOST_CURVED]
    for place, depth in enumerate(depths):
        color, style = CURVES[place % len(CURVES)]
        axes.plot(codes[:, depth], color=color, linestyle=style, linewidth=1.0, label=f"{depth}")
    axes.set_xlim(0, max(1, len(codes) - 1))
    axes.set_xlabel("position")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=LABEL - 1, handlelength=1.5,
        handletextpad=0.4, borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip


def draw_scale(sheet: Sheet, x: float, top: float, height: float) -> None:
    """Draw what the colours mean."""
    axes = sheet.axes(x, top, 0.08, height, bare=False)
    axes.imshow(
        np.linspace(1, -1, 128)[:, None], cmap=SIGNED, norm=signed_scale(1.0), aspect="auto", interpolation="none",
        extent=(0, 1, -1, 1),
    )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([-1, 0, 1], ["−1", "0", "1"])
    axes.yaxis.tick_right()


def heading(axes: Axes, text: str) -> None:
    """Name a part of the figure."""
    axes.set_title(text, fontsize=LABEL, color=QUIET, loc="left", pad=3, parse_math=False)
