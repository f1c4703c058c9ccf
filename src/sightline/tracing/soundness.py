"""What must hold between the parts of a trace: whoever draws one relies on it, whoever wrote it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.tracing.alignment import Alignment
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.passage import Passage
from sightline.tracing.readout import Readout
from sightline.tracing.step import Step
from sightline.tracing.tree import Tree

NAME = re.compile(r"[a-z][a-z_.0-9]{0,99}")
SQUARE = ("weights", "scores", "scaled", "masked")
AROUND = {"query": 0, "mixed": 0, "key": 1, "value": 1}
"""Which axis of an attention the middle axis of these is: who looks, or what is looked at."""


def passage_problems(passage: Passage, where: str) -> Iterator[str]:
    """Yield what is wrong with the tokens of a text."""
    for place, token in enumerate(passage.tokens):
        if not 0 <= token.start <= token.end <= len(passage.text) or token.id < 0:
            yield f"{where}.tokens[{place}] stands outside its text"


def step_problems(steps: Sequence[Step], *, n_rows: int) -> Iterator[str]:
    """Yield what is wrong with the decisions."""
    for place, step in enumerate(steps):
        sound = 0 <= step.row < n_rows and 0 <= step.chosen < len(step.candidates) and step.rank >= 0
        if not sound or not all(0 <= candidate.probability <= 1 for candidate in step.candidates):
            yield f"steps[{place}] names a row or a candidate that is not there, or no probability"


def tree_problems(tree: Tree, *, n_heads: int | None) -> Iterator[str]:
    """Yield what is wrong with the tree of a beam."""
    for place, node in enumerate(tree.nodes):
        before = None if node.parent is None else node.parent
        if (before is None) != (node.step == 0) or not (before is None or 0 <= before < place):
            yield f"tree.nodes[{place}] does not continue a node before it"
        elif before is not None and tree.nodes[before].step != node.step - 1:
            yield f"tree.nodes[{place}] does not continue a node of the step before it"
        elif node.row < 0:
            yield f"tree.nodes[{place}] has no row"
    n_looks = max((node.row for node in tree.nodes), default=-1) + 1
    for name, array in tree.attention.items():
        if not NAME.fullmatch(name) or array.shape[1] != n_looks or array.shape[0] != (n_heads or array.shape[0]):
            yield f"tree.attention {name[:80]!r} does not fit its nodes"


def alignment_problems(alignment: Alignment, source: str, target: str) -> Iterator[str]:
    """Yield what is wrong with the links between words."""
    for place, link in enumerate(alignment.links):
        inside = link.source_start <= link.source_end <= len(source) and link.target_start <= link.target_end <= len(
            target
        )
        if not inside or min(link.source_start, link.target_start) < 0:
            yield f"alignment.links[{place}] stands outside its texts"


def readout_problems(readout: Readout, *, n_rows: int, n_steps: int) -> Iterator[str]:
    """Yield what is wrong with what was read out after each layer."""
    layers, rows, _ = readout.ids.shape
    if not all(0 <= row < n_rows for row in readout.rows) or rows != len(readout.rows):
        yield "readout.rows names a row that is not there"
    if readout.probabilities.shape != readout.ids.shape or readout.chosen.shape != (layers, n_steps):
        yield "the arrays of readout do not fit each other"
    missing = {str(id_) for id_ in np.unique(readout.ids).tolist()} - set(readout.texts)
    if missing:
        yield f"readout.texts lacks the id {min(missing)}"


def knockout_problems(knockouts: Knockouts, *, n_steps: int) -> Iterator[str]:
    """Yield what is wrong with the effects of heads."""
    if knockouts.steps.shape[0] != len(knockouts.attentions) or knockouts.steps.shape[2] != n_steps:
        yield "knockouts.steps does not fit its attentions or the steps"


def probe_problems(
    probes: Mapping[str, Any], *, n_source: int, n_inputs: int, heads: Sequence[int] | None
) -> Iterator[str]:
    """Yield the probes whose names or shapes are none a model has."""
    for name, array in probes.items():
        if not NAME.fullmatch(name):
            yield f"{name[:80]!r} is not the name of a probe"
        elif not fits(name, array.shape, n_source=n_source, n_inputs=n_inputs, heads=heads):
            yield f"the shape {list(array.shape)} of {name} does not fit the tokens"


def fits(name: str, shape: tuple[int, ...], *, n_source: int, n_inputs: int, heads: Sequence[int] | None) -> bool:
    """Say whether an array can be what its name says."""
    rows = n_source if name.startswith("encoder") else n_inputs
    columns = n_source if "cross_attention" in name else rows
    point = name.rpartition(".")[2]
    if point in SQUARE:
        return len(shape) == 3 and shape[1:] == (rows, columns) and (heads is None or shape[0] == len(heads))
    if point in AROUND:
        return len(shape) == 3 and shape[1] == (rows, columns)[AROUND[point]]
    if point == "logits":
        return len(shape) == 2 and shape[0] in (n_source, n_inputs, 1)
    return len(shape) == 2 and shape[0] == rows
