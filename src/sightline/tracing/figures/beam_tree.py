"""The beam search as a tree: step by step downwards what was kept, beside it what was given up, and what came out.

Only what went on, or ended well, has a place in the tree; what was given up at once is listed beside its parent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sightline.errors import InputError
from sightline.tracing.figures.label import breadth, fitted, label
from sightline.tracing.figures.sheet import Sheet
from sightline.tracing.figures.style import INK, LABEL, MARGIN, PAGE, QUIET, SMALL, WEIGHT
from sightline.tracing.trace import Trace
from sightline.tracing.tree import Node, Tree

TALL_LINE, SHORT_LINE = 0.36, 0.155
"""Inches of a step, where there are few and where there are many."""
MANY = 40
"""Steps from which on the tree is cut into parts that stand side by side, without what was given up."""
NARROW, WIDE = 0.62, 1.7
"""Inches from one hypothesis to the next: the least, and the most."""
HEADING, NUMBERS = 0.24, 0.24
RESULT = 1.0
"""Inches for the rank and the score of a result."""
THINNEST, THICKEST = 0.5, 2.4
WORTH_SAYING = 0.05
"""The probability of what was given up is told from here on."""
NOTE = (
    "Downwards, step by step; beside each token its probability, by which its line is thick. Blue and bold: the text "
    "that came out. ■ complete."
)


@dataclass(frozen=True)
class Layout:
    """Where everything stands, in inches of the page."""

    slots: Mapping[int, int]
    """Of each node in the tree: how far to the right."""
    left: float
    top: float
    line: float
    pitch: float
    per_part: int
    """Steps in one part of the tree."""
    part_width: float

    def at(self, step: int, slot: int) -> tuple[float, float]:
        """Return the place of a node; of step −1, where the search began."""
        part, line = divmod(max(step, 0), self.per_part)
        x = self.left + part * self.part_width + NUMBERS + slot * self.pitch + 0.14
        return x, self.top + HEADING + self.line * (line + 0.5) - (self.line * 0.9 if step < 0 else 0.0)

    @property
    def is_tall(self) -> bool:
        """Whether there is room between the lines."""
        return self.line > SHORT_LINE


def beam_tree(trace: Trace, *, title: str | None = None, width: int | float = PAGE) -> Figure:
    """Draw what the beam looked at."""
    if trace.tree is None or not trace.tree.nodes:
        raise InputError("this trace has no beam: make it with beam=4 (--beam 4)")
    tree = trace.tree
    slots = slots_of(tree, drawn_nodes(tree))
    n_steps, across = 1 + max(tree.nodes[number].step for number in slots), 1 + max(slots.values())
    room = width - 2 * MARGIN
    parts = 1 if n_steps <= MANY else max(1, min(4, int(room / (NUMBERS + across * NARROW))))
    part_width = room / parts
    per_part = math.ceil(n_steps / parts)
    line = TALL_LINE if n_steps <= MANY else SHORT_LINE
    pitch = min(WIDE, (part_width - NUMBERS) / across)
    results = tree.results()
    height = HEADING + line * per_part + 0.1 + 0.14 * len(results)
    given_up = " Grey and small: what was given up at once." if n_steps <= MANY else ""
    sheet = Sheet(width, height, title=title, notes=NOTE + given_up)
    layout = Layout(slots, MARGIN, sheet.top, line, pitch, per_part, part_width)
    draw_tree(sheet, tree, layout)
    for rank, end in enumerate(results):
        write_result(sheet, tree, end, sheet.bottom - 0.14 * (len(results) - rank - 0.5), best=rank == 0)
    return sheet.figure


def drawn_nodes(tree: Tree) -> list[int]:
    """Return the nodes that have a place in the tree: those that went on, ended, or are a result."""
    parents = {node.parent for node in tree.nodes}
    return [
        number
        for number, node in enumerate(tree.nodes)
        if number in parents or node.fate == "finished" or node.result is not None
    ]


def best_path(tree: Tree) -> set[int]:
    """Return the nodes of the text that came out."""
    return set(tree.path(tree.results()[0])) if tree.results() else set()


def slots_of(tree: Tree, numbers: Sequence[int]) -> dict[int, int]:
    """Return how far to the right each node stands: the best path first, an only or best child under its parent."""
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
            wanted = above(tree.nodes[number], slots)
            if wanted in taken:
                others.append(number)
            else:
                slots[number] = wanted
                taken.add(wanted)
        for number in others:
            wanted = above(tree.nodes[number], slots)
            free = set(range(len(taken) + 1)) - taken
            slots[number] = min(free, key=lambda slot: (abs(slot - wanted), slot))
            taken.add(slots[number])
    return slots


def above(node: Node, slots: Mapping[int, int]) -> int:
    """Return how far to the right the parent of a node stands."""
    return 0 if node.parent is None else slots[node.parent]


def draw_tree(sheet: Sheet, tree: Tree, layout: Layout) -> None:
    """Draw the lines, then the nodes upon them, then what was given up."""
    best, page = best_path(tree), sheet.page()
    ends, widths, colors = [], [], []
    for number in sorted(layout.slots, key=lambda number: number in best):
        node, slot = tree.nodes[number], layout.slots[number]
        before = above(node, layout.slots)
        x, y = layout.at(node.step, slot)
        begin_x, begin_y = layout.at(node.step - 1, before)
        if node.step and not node.step % layout.per_part:  # its parent stands at the foot of the part before
            begin_x, begin_y = layout.at(node.step, before)[0], y - layout.line
        below = 0.0 if node.parent is None else layout.line * 0.27
        ends.append([(begin_x, begin_y + below), (x, y - (layout.line * 0.27 if slot == before else 0.0))])
        widths.append(THINNEST + THICKEST * float(np.exp(node.token_log_probability)))
        colors.append(WEIGHT if number in best else QUIET)
    page.add_collection(LineCollection(ends, linewidths=widths, colors=colors, capstyle="butt"), autolim=False)
    x, y = layout.at(-1, 0)
    page.plot(x, y, marker="o", markersize=4, color=WEIGHT, clip_on=False)
    for step in range(1 + max(tree.nodes[number].step for number in layout.slots)):
        x, y = layout.at(step, 0)
        sheet.write(x - NUMBERS - 0.14, y, str(step + 1), size=SMALL, color=QUIET)
    for number in layout.slots:
        draw_node(sheet, tree.nodes[number], layout.at(tree.nodes[number].step, layout.slots[number]), layout,
                  best=number in best)  # fmt: skip
    if layout.is_tall:
        draw_given_up(sheet, tree, layout)


def draw_node(sheet: Sheet, node: Node, place: tuple[float, float], layout: Layout, *, best: bool) -> None:
    """Write a token on white ground, its probability beside it."""
    x, y = place
    size = LABEL if layout.is_tall else LABEL - 1.5
    text = fitted(label(node.text), layout.pitch - 0.34, size, bold=best)
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    color, weight = (WEIGHT, "bold") if best else (INK, "normal")
    sheet.write(x - 0.03, y, text, size=size, color=color, weight=weight, bbox=ground, zorder=3)
    after = x + breadth(text, size, bold=best) + 0.02
    ending = probability(node.token_log_probability) + (" ■" if node.fate == "finished" else "")
    sheet.write(after, y, ending, size=SMALL - 0.5, color=QUIET, bbox=ground, zorder=2)


def draw_given_up(sheet: Sheet, tree: Tree, layout: Layout) -> None:
    """List under each node the tokens it might have gone on with."""
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
        text = "  ".join(map(given_up, children))
        room = layout.pitch - 0.2 if slot < max(layout.slots.values()) else sheet.width - x - 0.1
        text = fitted(text, room, SMALL - 0.5)
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        sheet.write(x + 0.07, y - layout.line / 2 - 0.005, text, size=SMALL - 0.5, color=QUIET, bbox=ground, zorder=2)


def given_up(node: Node) -> str:
    """Return a token that was given up, with its probability where that was worth a thought."""
    likely = float(np.exp(node.token_log_probability)) >= WORTH_SAYING
    return label(node.text, longest=10) + (f" {probability(node.token_log_probability)}" if likely else "")


def probability(log_probability: float) -> str:
    """Return a probability as .83."""
    value = float(np.exp(log_probability))
    return "1.00" if value >= 0.995 else f"{value:.2f}"[1:] if value >= 0.005 else "<.01"


def write_result(sheet: Sheet, tree: Tree, end: int, y: float, *, best: bool) -> None:
    """Write a finished text with its rank and score; apart, for Hebrew or Arabic would turn them around."""
    node = tree.nodes[end]
    path = [tree.nodes[number] for number in tree.path(end)]
    text = "".join(one.text for one in (path[:-1] if node.fate == "finished" else path)).strip()
    number = f"{(node.result or 0) + 1}.   score {node.score:.3f}".replace("-", "−")
    size, weight, color = SMALL + 0.5, "bold" if best else "normal", WEIGHT if best else INK
    x = MARGIN + RESULT
    text = fitted(label(text, longest=200), sheet.width - x - MARGIN, size, bold=best)
    sheet.write(MARGIN, y, number, size=size, color=color, weight=weight)
    sheet.write(x, y, text, size=size, color=color, weight=weight)
