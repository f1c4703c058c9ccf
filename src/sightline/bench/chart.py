"""One chart of several benchmarks: the time each contender takes, beside the fastest peer's; or growth curves.

Charts are drawn from the JSON that `sightline bench … --json` prints.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sightline.bench.contenders import OURS
from sightline.errors import InputError
from sightline.storage import parse_object
from sightline.tracing.figures import save
from sightline.tracing.figures.canvas import (
    FAINT,
    INK,
    KEY,
    LABEL,
    MARGIN,
    NUMBER,
    PAGE,
    POSITION,
    QUERY,
    QUIET,
    SMALL,
    VALUE,
    WEIGHT,
    Canvas,
    figure_style,
    max_text_width,
)

BAR, PANEL_TITLE, PANEL_GAP = 0.17, 0.2, 0.12
"""Inches: one contender, the line above a benchmark, the space below it."""
PEER_COLOR = "#b4bdc9"
CURVE_COLORS = (WEIGHT, QUERY, VALUE, KEY, POSITION, QUIET, INK)
CURVE_HEIGHT, CURVE_WIDTH = 2.2, 3.0


def read_results(path: Path) -> Mapping[str, Any]:
    """Return what `--json` printed."""
    try:
        found = parse_object(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if "command" not in found or not ("results" in found or "curves" in found):
        raise InputError(f"{path} is not what `sightline bench … --json` prints")
    return found


def draw_charts(paths: Sequence[Path], out: Path) -> None:
    """Draw all benchmarks of these files into one picture."""
    found = [read_results(path) for path in paths]
    bars = [one for one in found if "results" in one]
    curves = [one for one in found if "curves" in one]
    if bars and curves:
        raise InputError("growth curves and single benchmarks do not fit on one chart: draw them apart")
    save(growth_chart(curves) if curves else speed_chart(bars), out)


@figure_style()
def speed_chart(benchmarks: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a group of bars for each benchmark: speed, where the fastest peer is 1."""
    groups = [(one, timed(one)) for one in benchmarks]
    height = sum(PANEL_TITLE + BAR * len(rows) + PANEL_GAP for _, rows in groups)
    notes = f"Longer is faster; the fastest peer is 1. {machine_note(benchmarks[0])}"
    canvas = Canvas(PAGE, height, title="Speed beside other libraries", notes=notes)
    names = 1.1 * max_text_width([name_of(row) for _, rows in groups for row in rows], LABEL) + 0.1  # some are bold
    room = PAGE - 2 * MARGIN - names - 1.25
    longest = max(speed(row, rows) for _, rows in groups for row in rows)
    page, top = canvas.page(), canvas.top
    for benchmark, rows in groups:
        canvas.write(MARGIN, top + PANEL_TITLE / 2, benchmark["about"], size=LABEL, weight="bold")
        top += PANEL_TITLE
        one = MARGIN + names + room / longest
        page.plot([one, one], [top, top + BAR * len(rows)], color=FAINT, linewidth=0.8, zorder=0)
        for row in rows:
            fast, middle = speed(row, rows), top + BAR / 2
            ours = is_ours(row)
            canvas.write(MARGIN, middle, name_of(row), size=LABEL, weight="bold" if ours else "normal")
            page.barh(middle, fast * room / longest, BAR * 0.7, MARGIN + names, color=WEIGHT if ours else PEER_COLOR)
            text = f"{fast:.2f}×   {duration(row['median_seconds'])}"
            x = MARGIN + names + fast * room / longest + 0.06
            canvas.write(x, middle, text, size=NUMBER, color=INK if ours else QUIET)
            top += BAR
        top += PANEL_GAP
    return canvas.figure


def timed(benchmark: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the contenders that took part, ours first."""
    rows: list[Mapping[str, Any]] = [row for row in benchmark["results"] if row.get("median_seconds")]
    if not rows:
        raise InputError(f"nobody took part in {benchmark['about']}")
    return rows


def is_ours(row: Mapping[str, Any]) -> bool:
    """Tell our engines, and our code before, from peers."""
    return str(row["name"]).split()[0] in (OURS, "before")


def speed(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float:
    """Return how many times as fast as the fastest peer a contender is."""
    peers = [other["median_seconds"] for other in rows if not is_ours(other)] or [rows[0]["median_seconds"]]
    return float(min(peers) / row["median_seconds"])


def name_of(row: Mapping[str, Any]) -> str:
    """Return a contender's name with its setting."""
    return f"{row['name']} ({row['setting']})" if row.get("setting") else str(row["name"])


def duration(seconds: float) -> str:
    """Return a time with its unit."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"


def machine_note(benchmark: Mapping[str, Any]) -> str:
    """Say where it was measured."""
    machine = benchmark["machine"]
    features = ", ".join(machine["features"])
    return f"{machine['processor']} ({features}), {machine['threads']} cores; medians of interleaved rounds."


@figure_style()
def growth_chart(benchmarks: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a plot for each benchmark, both axes logarithmic: a straight line is a power."""
    n_rows = (len(benchmarks) + 1) // 2
    notes = f"Both axes are logarithmic. {machine_note(benchmarks[0])}"
    canvas = Canvas(PAGE, n_rows * (CURVE_HEIGHT + 0.6), title="How times grow", notes=notes)
    for number, benchmark in enumerate(benchmarks):
        left = 0.45 + (number % 2) * (PAGE / 2)
        top = canvas.top + (number // 2) * (CURVE_HEIGHT + 0.6) + 0.22
        canvas.write(left - 0.39, top - 0.12, benchmark["about"], size=LABEL, weight="bold")
        axes = canvas.axes(left, top, CURVE_WIDTH - 0.1, CURVE_HEIGHT - 0.1, bare=False)
        draw_curves(axes, benchmark)
    return canvas.figure


def draw_curves(axes: Axes, benchmark: Mapping[str, Any]) -> None:
    """Draw the contenders' times over the number that grows."""
    values = benchmark["values"]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for curve, color in zip(benchmark["curves"], CURVE_COLORS, strict=False):
        known = [(value, 1e3 * one) for value, one in zip(values, curve["seconds"], strict=True) if one is not None]
        if known:
            width = 1.6 if curve["name"] == OURS else 0.9
            axes.plot(*zip(*known, strict=True), color=color, linewidth=width, marker="o", ms=2, label=curve["name"])
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(benchmark["number"], size=SMALL)
    axes.set_ylabel("ms", size=SMALL, labelpad=0)
    axes.grid(color=FAINT, linewidth=0.4)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
