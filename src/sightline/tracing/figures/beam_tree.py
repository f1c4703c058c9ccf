"""A beam search as a tree: step by step downwards the hypotheses kept, beside them those pruned, below the results.

Only hypotheses that were continued or finished are nodes of the drawing; those pruned at once are listed beside their
parent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.beam_tree import Node, Tree
from sightline.tracing.figures.canvas import (
    INK,
    LABEL,
    MARGIN,
    PAGE,
    QUIET,
    SMALL,
    WEIGHT,
    Canvas,
    figure_style,
    fit_text,
    text_width,
    token_label,
)
from sightline.tracing.trace import Trace

TALL_LINE, SHORT_LINE = 0.36, 0.155
"""Inches per step, with few and with many steps."""
MAX_TALL_STEPS = 40
"""Longer trees are cut into columns side by side, without the pruned hypotheses."""
MIN_PITCH, MAX_PITCH = 0.62, 1.7
"""Inches from one hypothesis to the next."""
HEADING, NUMBERS = 0.24, 0.24
RESULT = 1.0
"""Inches for the rank and the score of a result."""
MIN_LINE_WIDTH, LINE_WIDTH_PER_PROBABILITY = 0.5, 2.4
MIN_SHOWN_PROBABILITY = 0.05
"""Smaller probabilities of pruned tokens are not shown."""
NOTE = (
    "Downwards, step by step; beside each token its probability, which sets the width of its line. Blue and bold: the "
    "best result. ■ finished."
)


@dataclass(frozen=True)
class TreeLayout:
    """Where everything is, in inches of the page."""

    slots: Mapping[int, int]
    """The column of each drawn node."""
    left: float
    top: float
    line: float
    pitch: float
    per_part: int
    """Steps in one part of a tree that is cut."""
    part_width: float

    def at(self, step: int, slot: int) -> tuple[float, float]:
        """Return the position of a node; step −1 is the root."""
        part, line = divmod(max(step, 0), self.per_part)
        x = self.left + part * self.part_width + NUMBERS + slot * self.pitch + 0.14
        return x, self.top + HEADING + self.line * (line + 0.5) - (self.line * 0.9 if step < 0 else 0.0)

    @property
    def is_tall(self) -> bool:
        """Whether there is room between the steps."""
        return self.line > SHORT_LINE


@figure_style()
def beam_tree(trace: Trace, *, title: str | None = None, width: int | float = PAGE) -> Figure:
    """Draw the hypotheses of a beam search."""
    if trace.tree is None or not trace.tree.nodes:
        raise InputError("this trace has no beam search: trace with beam_size=4 (--beam 4)")
    tree = trace.tree
    slots = assign_slots(tree, select_drawn(tree))
    n_steps, across = 1 + max(tree.nodes[number].step for number in slots), 1 + max(slots.values())
    room = width - 2 * MARGIN
    parts = 1 if n_steps <= MAX_TALL_STEPS else max(1, min(4, int(room / (NUMBERS + across * MIN_PITCH))))
    part_width = room / parts
    per_part = math.ceil(n_steps / parts)
    line = TALL_LINE if n_steps <= MAX_TALL_STEPS else SHORT_LINE
    pitch = min(MAX_PITCH, (part_width - NUMBERS) / across)
    results = tree.results()
    height = HEADING + line * per_part + 0.1 + 0.14 * len(results)
    pruned = " Gray and small: pruned at once." if n_steps <= MAX_TALL_STEPS else ""
    canvas = Canvas(width, height, title=title, notes=NOTE + pruned)
    layout = TreeLayout(slots, MARGIN, canvas.top, line, pitch, per_part, part_width)
    draw_tree(canvas, tree, layout)
    for rank, end in enumerate(results):
        write_result(canvas, tree, end, canvas.bottom - 0.14 * (len(results) - rank - 0.5), best=rank == 0)
    return canvas.figure


def select_drawn(tree: Tree) -> list[int]:
    """Return the nodes to draw: those that were continued, finished, or are a result."""
    parents = {node.parent for node in tree.nodes}
    return [
        number
        for number, node in enumerate(tree.nodes)
        if number in parents or node.fate == "finished" or node.result is not None
    ]


def best_path(tree: Tree) -> set[int]:
    """Return the nodes of the best result."""
    return set(tree.path(tree.results()[0])) if tree.results() else set()


def assign_slots(tree: Tree, numbers: Sequence[int]) -> dict[int, int]:
    """Return the column of each node: the best path first, an only or best child under its parent."""
    best = best_path(tree)
    slots: dict[int, int] = {}
    by_step: dict[int, list[int]] = {}
    for number in numbers:
        by_step.setdefault(tree.nodes[number].step, []).append(number)
    for step in sorted(by_step):
        order = sorted(by_step[step], key=lambda number: (number not in best, -tree.nodes[number].score))
        taken: set[int] = set()
        others = []
        for number in order:
            wanted = parent_slot(tree.nodes[number], slots)
            if wanted in taken:
                others.append(number)
            else:
                slots[number] = wanted
                taken.add(wanted)
        for number in others:
            wanted = parent_slot(tree.nodes[number], slots)
            free = set(range(len(taken) + 1)) - taken
            slots[number] = min(free, key=lambda slot: (abs(slot - wanted), slot))
            taken.add(slots[number])
    return slots


def parent_slot(node: Node, slots: Mapping[int, int]) -> int:
    """Return the column of a node's parent."""
    return 0 if node.parent is None else slots[node.parent]


def draw_tree(canvas: Canvas, tree: Tree, layout: TreeLayout) -> None:
    """Draw the lines, then the nodes on top, then the pruned tokens."""
    best, page = best_path(tree), canvas.page()
    ends, widths, colors = [], [], []
    for number in sorted(layout.slots, key=lambda number: number in best):
        node, slot = tree.nodes[number], layout.slots[number]
        before = parent_slot(node, layout.slots)
        x, y = layout.at(node.step, slot)
        begin_x, begin_y = layout.at(node.step - 1, before)
        if node.step and not node.step % layout.per_part:  # its parent is at the bottom of the previous part
            begin_x, begin_y = layout.at(node.step, before)[0], y - layout.line
        below = 0.0 if node.parent is None else layout.line * 0.27
        ends.append([(begin_x, begin_y + below), (x, y - (layout.line * 0.27 if slot == before else 0.0))])
        widths.append(MIN_LINE_WIDTH + LINE_WIDTH_PER_PROBABILITY * float(np.exp(node.token_log_probability)))
        colors.append(WEIGHT if number in best else QUIET)
    page.add_collection(LineCollection(ends, linewidths=widths, colors=colors, capstyle="butt"), autolim=False)
    x, y = layout.at(-1, 0)
    page.plot(x, y, marker="o", markersize=4, color=WEIGHT, clip_on=False)
    for step in range(1 + max(tree.nodes[number].step for number in layout.slots)):
        x, y = layout.at(step, 0)
        canvas.write(x - NUMBERS - 0.14, y, str(step + 1), size=SMALL, color=QUIET)
    for number in layout.slots:
        draw_node(canvas, tree.nodes[number], layout.at(tree.nodes[number].step, layout.slots[number]), layout,
                  best=number in best)  # fmt: skip
    if layout.is_tall:
        draw_pruned(canvas, tree, layout)


def draw_node(canvas: Canvas, node: Node, position: tuple[float, float], layout: TreeLayout, *, best: bool) -> None:
    """Write a token on a white background, its probability beside it."""
    x, y = position
    size = LABEL if layout.is_tall else LABEL - 1.5
    text = fit_text(token_label(node.text), layout.pitch - 0.34, size, bold=best)
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    color, weight = (WEIGHT, "bold") if best else (INK, "normal")
    canvas.write(x - 0.03, y, text, size=size, color=color, weight=weight, bbox=ground, zorder=3)
    after = x + text_width(text, size, bold=best) + 0.02
    ending = probability(node.token_log_probability) + (" ■" if node.fate == "finished" else "")
    canvas.write(after, y, ending, size=SMALL - 0.5, color=QUIET, bbox=ground, zorder=2)


def draw_pruned(canvas: Canvas, tree: Tree, layout: TreeLayout) -> None:
    """List beside each node the continuations that were pruned."""
    families: dict[int | None, list[Node]] = {}
    for number, node in enumerate(tree.nodes):
        if number not in layout.slots:
            families.setdefault(node.parent, []).append(node)
    for parent, children in families.items():
        if parent is not None and parent not in layout.slots:
            continue
        slot = 0 if parent is None else layout.slots[parent]
        x, y = layout.at(children[0].step, slot)
        children.sort(key=lambda node: -node.token_log_probability)
        text = "  ".join(map(format_pruned, children))
        room = layout.pitch - 0.2 if slot < max(layout.slots.values()) else canvas.width - x - 0.1
        text = fit_text(text, room, SMALL - 0.5)
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        canvas.write(x + 0.07, y - layout.line / 2 - 0.005, text, size=SMALL - 0.5, color=QUIET, bbox=ground, zorder=2)


def format_pruned(node: Node) -> str:
    """Return a pruned token, with its probability if that is not too small."""
    likely = float(np.exp(node.token_log_probability)) >= MIN_SHOWN_PROBABILITY
    return token_label(node.text, max_characters=10) + (f" {probability(node.token_log_probability)}" if likely else "")


def probability(log_probability: float) -> str:
    """Return a probability as .83."""
    value = float(np.exp(log_probability))
    return "1.00" if value >= 0.995 else f"{value:.2f}"[1:] if value >= 0.005 else "<.01"


def write_result(canvas: Canvas, tree: Tree, end: int, y: float, *, best: bool) -> None:
    """Write a result with its rank and score, as separate texts: Hebrew or Arabic would reorder them."""
    node = tree.nodes[end]
    path = [tree.nodes[number] for number in tree.path(end)]
    text = "".join(one.text for one in (path[:-1] if node.fate == "finished" else path)).strip()
    number = f"{(node.result or 0) + 1}.   score {node.score:.3f}".replace("-", "−")
    size, weight, color = SMALL + 0.5, "bold" if best else "normal", WEIGHT if best else INK
    x = MARGIN + RESULT
    text = fit_text(token_label(text, max_characters=200), canvas.width - x - MARGIN, size, bold=best)
    canvas.write(MARGIN, y, number, size=size, color=color, weight=weight)
    canvas.write(x, y, text, size=size, color=color, weight=weight)
