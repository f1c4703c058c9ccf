"""Build the tree of a beam search from its history, and compute the attention of every hypothesis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sightline.decoding import BeamHistory
from sightline.tracing.capture import Actions, make_hooks
from sightline.tracing.likelihood import IdToText
from sightline.tracing.passes import DecoderPass
from sightline.tracing.plan import BYTES, Plan
from sightline.tracing.tree import Node, Tree

WORKING_BYTES = 64_000_000
"""Memory for the weights of one attention layer while a batch runs."""


@dataclass(frozen=True)
class ExpandedPrefixes:
    """The prefixes that the search expanded: the empty one, and every hypothesis that was continued."""

    prefixes: list[tuple[int, ...]]

    def max_length(self) -> int:
        """Return the length of the longest prefix."""
        return max((len(prefix) for prefix in self.prefixes), default=0)

    def leaves(self) -> list[tuple[int, ...]]:
        """Return the prefixes that no other extends: a pass over these covers them all."""
        continued = {prefix[:-1] for prefix in self.prefixes if prefix}
        return [prefix for prefix in self.prefixes if prefix not in continued]


def build_tree(history: BeamHistory, name: IdToText) -> tuple[Tree, ExpandedPrefixes]:
    """Return the tree of a search, without attention, and the prefixes it expanded."""
    results = {ending: rank for rank, ending in enumerate(history.endings)}
    nodes: list[Node] = []
    prefixes: list[tuple[int, ...]] = []  # of each node, itself included
    rows: dict[tuple[int, ...], int] = {}
    offset_before = offset = 0
    for number, step in enumerate(history.steps):
        for index, node in enumerate(step):
            parent = None if node.parent is None else offset_before + node.parent
            prefix = () if parent is None else prefixes[parent]
            prefixes.append((*prefix, node.token))
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
                    row=rows.setdefault(prefix, len(rows)),
                )
            )
        offset_before, offset = offset, offset + len(step)
    return Tree(tuple(nodes)), ExpandedPrefixes(list(rows))


def hypothesis_attention_shapes(
    plan: Plan, expanded: ExpandedPrefixes, *, n_context: int
) -> dict[str, tuple[int, int, int]]:
    """Return the shapes of the hypotheses' attention, for every decoder attention in the plan."""
    found = {}
    for name, shape in plan.shapes.items():
        if name.startswith("decoder") and name.endswith(".weights"):
            n_keys = shape[2] if "cross_attention" in name else n_context + expanded.max_length()
            found[name] = (shape[0], len(expanded.prefixes), n_keys)
    return found


def hypothesis_attention_bytes(plan: Plan, expanded: ExpandedPrefixes, *, n_context: int) -> int:
    """Return the bytes that the attention of all hypotheses takes."""
    shapes = hypothesis_attention_shapes(plan, expanded, n_context=n_context).values()
    return sum(BYTES * heads * rows * keys for heads, rows, keys in shapes)


def compute_hypothesis_attention(
    forward_pass: DecoderPass, plan: Plan, expanded: ExpandedPrefixes, *, context: Sequence[int], interventions: Actions
) -> dict[str, Float[np.ndarray, "heads rows _"]]:
    """Return the attention weights of every hypothesis, by running the decoder on the longest ones.

    Decoder attention is causal: the rows of a prefix are the same in every hypothesis that extends it.
    """
    shapes = hypothesis_attention_shapes(plan, expanded, n_context=len(context))
    found = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    numbers = {prefix: number for number, prefix in enumerate(expanded.prefixes)}
    heads = list(range(forward_pass.model.config.n_heads)) if plan.heads is None else list(plan.heads)
    pending = sorted(expanded.leaves(), key=len)
    n_tokens = len(context) + expanded.max_length()
    n_keys = max((keys for _, _, keys in shapes.values()), default=1)
    size = max(1, WORKING_BYTES // (BYTES * forward_pass.model.config.n_heads * n_tokens * n_keys))
    while pending:
        batch, pending = pending[:size], pending[size:]

        def keep(name: str, value: Tensor, batch: list[tuple[int, ...]] = batch) -> None:
            for leaf, weights in zip(batch, value, strict=True):  # H T S
                for length in range(len(leaf) + 1):
                    row = weights[heads, len(context) - 1 + length].float().cpu().numpy()
                    n_visible = row.shape[1] if "cross_attention" in name else len(context) + length
                    found[name][:, numbers[leaf[:length]], :n_visible] = row[:, :n_visible]

        hooks = make_hooks(interventions, dict.fromkeys(found, (keep,)))
        forward_pass.run_inputs([[*context, *leaf] for leaf in batch], hooks)
    return found
