"""Make the tree of a beam from what its search remembered, and find out where every hypothesis looked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sightline.decoding import BeamHistory
from sightline.tracing.capture import Actions, watching
from sightline.tracing.likelihood import Name
from sightline.tracing.passes import DecoderPass
from sightline.tracing.plan import BYTES, Plan
from sightline.tracing.tree import Node, Tree

WORKING_BYTES = 64_000_000
"""Weights of one attention that may be in memory for a moment."""


@dataclass(frozen=True)
class Looks:
    """The looks from which the nodes were chosen: one at the start, and one wherever a hypothesis was continued."""

    prefixes: list[tuple[int, ...]]
    """What had been written at each look."""

    def longest(self) -> int:
        """Return the most tokens any of them had written."""
        return max((len(prefix) for prefix in self.prefixes), default=0)

    def leaves(self) -> list[tuple[int, ...]]:
        """Return the prefixes that no other goes on with: reading these reads them all."""
        continued = {prefix[:-1] for prefix in self.prefixes if prefix}
        return [prefix for prefix in self.prefixes if prefix not in continued]


def tree_of(history: BeamHistory, name: Name) -> tuple[Tree, Looks]:
    """Return the tree of a search, its attention still empty, and the looks from which it grew."""
    results = {ending: rank for rank, ending in enumerate(history.endings)}
    nodes: list[Node] = []
    prefixes: list[tuple[int, ...]] = []  # of each node, itself included
    rows: dict[tuple[int, ...], int] = {}
    offset_before = offset = 0
    for number, step in enumerate(history.steps):
        for index, node in enumerate(step):
            parent = None if node.parent is None else offset_before + node.parent
            look = () if parent is None else prefixes[parent]
            prefixes.append((*look, node.token))
            nodes.append(
                Node(
                    step=number,
                    parent=parent,
                    id=node.token,
                    text=name(node.token),
                    token_log_probability=node.token_log_probability,
                    log_probability=node.log_probability,
                    score=node.score,
                    fate=node.fate,
                    result=results.get((number, index)),
                    row=rows.setdefault(look, len(rows)),
                )
            )
        offset_before, offset = offset, offset + len(step)
    return Tree(tuple(nodes)), Looks(list(rows))


def attention_shapes(plan: Plan, looks: Looks, *, n_context: int) -> dict[str, tuple[int, int, int]]:
    """Return the attention of the hypotheses that the plan's own attentions of the decoder imply, by name."""
    found = {}
    for name, shape in plan.shapes.items():
        if name.startswith("decoder") and name.endswith(".weights"):
            n_keys = shape[2] if "cross_attention" in name else n_context + looks.longest()
            found[name] = (shape[0], len(looks.prefixes), n_keys)
    return found


def attention_size(plan: Plan, looks: Looks, *, n_context: int) -> int:
    """Return how many bytes the attention of all hypotheses takes."""
    shapes = attention_shapes(plan, looks, n_context=n_context).values()
    return sum(BYTES * heads * rows * keys for heads, rows, keys in shapes)


def look_again(
    work: DecoderPass, plan: Plan, looks: Looks, *, context: Sequence[int], interventions: Actions
) -> dict[str, Float[np.ndarray, "heads rows _"]]:
    """Return where every hypothesis looked, by reading the longest of them as a whole.

    A row sees only what stands before it, so that what a prefix looked at is in whatever goes on with it.
    """
    shapes = attention_shapes(plan, looks, n_context=len(context))
    found = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    numbers = {prefix: number for number, prefix in enumerate(looks.prefixes)}
    heads = list(range(work.model.config.n_heads)) if plan.heads is None else list(plan.heads)
    waiting = sorted(looks.leaves(), key=len)
    n_tokens = len(context) + looks.longest()
    n_keys = max((keys for _, _, keys in shapes.values()), default=1)
    size = max(1, WORKING_BYTES // (BYTES * work.model.config.n_heads * n_tokens * n_keys))
    while waiting:
        batch, waiting = waiting[:size], waiting[size:]

        def keep(name: str, value: Tensor, batch: list[tuple[int, ...]] = batch) -> None:
            for leaf, weights in zip(batch, value, strict=True):  # H T S
                for written in range(len(leaf) + 1):
                    row = weights[heads, len(context) - 1 + written].float().cpu().numpy()
                    n_seen = row.shape[1] if "cross_attention" in name else len(context) + written
                    found[name][:, numbers[leaf[:written]], :n_seen] = row[:, :n_seen]

        probe = watching(interventions, dict.fromkeys(found, (keep,)))
        work.read([[*context, *leaf] for leaf in batch], probe)
    return found
