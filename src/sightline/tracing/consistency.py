"""Consistency checks between the parts of a trace, which everything that draws one relies on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.tracing.alignment import Alignment
from sightline.tracing.head_ablation import HeadAblation
from sightline.tracing.logit_lens import LogitLens
from sightline.tracing.step import Step
from sightline.tracing.tokenized_text import TokenizedText
from sightline.tracing.tree import Tree

NAME = re.compile(r"[a-z][a-z_.0-9]{0,99}")
SQUARE = ("weights", "scores", "scaled", "masked")
TOKEN_AXIS = {"query": 0, "head_outputs": 0, "key": 1, "value": 1}
"""Whether the tokens of these arrays are the queries (0) or the keys (1) of the attention."""


def text_problems(text: TokenizedText, where: str) -> Iterator[str]:
    """Yield tokens whose spans are outside their text."""
    for index, token in enumerate(text.tokens):
        if not 0 <= token.start <= token.end <= len(text.text) or token.id < 0:
            yield f"{where}.tokens[{index}] is outside its text"


def step_problems(steps: Sequence[Step], *, n_rows: int) -> Iterator[str]:
    """Yield invalid steps."""
    for index, step in enumerate(steps):
        is_valid = 0 <= step.row < n_rows and 0 <= step.chosen < len(step.candidates) and step.rank >= 0
        if not is_valid or not all(0 <= candidate.probability <= 1 for candidate in step.candidates):
            yield f"steps[{index}] has an invalid row, candidate or probability"


def tree_problems(tree: Tree, *, n_heads: int | None) -> Iterator[str]:
    """Yield invalid nodes and attention of a beam tree."""
    for index, node in enumerate(tree.nodes):
        before = None if node.parent is None else node.parent
        if (before is None) != (node.step == 0) or not (before is None or 0 <= before < index):
            yield f"tree.nodes[{index}] does not continue a node before it"
        elif before is not None and tree.nodes[before].step != node.step - 1:
            yield f"tree.nodes[{index}] does not continue a node of the step before it"
        elif node.row < 0:
            yield f"tree.nodes[{index}] has no row"
    n_rows = max((node.row for node in tree.nodes), default=-1) + 1
    for name, array in tree.attention.items():
        if not NAME.fullmatch(name) or array.shape[1] != n_rows or array.shape[0] != (n_heads or array.shape[0]):
            yield f"tree.attention {name[:80]!r} does not fit its nodes"


def alignment_problems(alignment: Alignment, source: str, target: str) -> Iterator[str]:
    """Yield links outside their texts."""
    for index, link in enumerate(alignment.links):
        inside = link.source_start <= link.source_end <= len(source) and link.target_start <= link.target_end <= len(
            target
        )
        if not inside or min(link.source_start, link.target_start) < 0:
            yield f"alignment.links[{index}] is outside its texts"


def logit_lens_problems(logit_lens: LogitLens, *, n_rows: int, n_steps: int) -> Iterator[str]:
    """Yield what does not fit in a logit lens."""
    layers, rows, _ = logit_lens.ids.shape
    if not all(0 <= row < n_rows for row in logit_lens.rows) or rows != len(logit_lens.rows):
        yield "logit_lens.rows has a row that does not exist"
    if logit_lens.probabilities.shape != logit_lens.ids.shape or logit_lens.chosen.shape != (layers, n_steps):
        yield "the arrays of logit_lens do not fit each other"
    missing = {str(id_) for id_ in np.unique(logit_lens.ids).tolist()} - set(logit_lens.texts)
    if missing:
        yield f"logit_lens.texts has no text for the id {min(missing)}"


def ablation_problems(head_ablation: HeadAblation, *, n_steps: int) -> Iterator[str]:
    """Yield what does not fit in a head ablation."""
    if head_ablation.steps.shape[0] != len(head_ablation.attentions) or head_ablation.steps.shape[2] != n_steps:
        yield "head_ablation.steps does not fit its attentions or the steps"


def activation_problems(
    activations: Mapping[str, Any], *, n_source: int, n_inputs: int, heads: Sequence[int] | None
) -> Iterator[str]:
    """Yield activations with invalid names or shapes."""
    for name, array in activations.items():
        if not NAME.fullmatch(name):
            yield f"{name[:80]!r} is not the name of a hook point"
        elif not shape_fits(name, array.shape, n_source=n_source, n_inputs=n_inputs, heads=heads):
            yield f"the shape {list(array.shape)} of {name} does not fit the tokens"


def shape_fits(name: str, shape: tuple[int, ...], *, n_source: int, n_inputs: int, heads: Sequence[int] | None) -> bool:
    """Tell whether an array has a shape that its name allows."""
    rows = n_source if name.startswith("encoder") else n_inputs
    columns = n_source if "cross_attention" in name else rows
    point = name.rpartition(".")[2]
    if point in SQUARE:
        return len(shape) == 3 and shape[1:] == (rows, columns) and (heads is None or shape[0] == len(heads))
    if point in TOKEN_AXIS:
        return len(shape) == 3 and shape[1] == (rows, columns)[TOKEN_AXIS[point]]
    if point == "logits":
        return len(shape) == 2 and shape[0] in (n_source, n_inputs, 1)
    return len(shape) == 2 and shape[0] == rows
