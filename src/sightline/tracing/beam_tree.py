"""All hypotheses of a beam search as a tree, with the attention of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sightline.decoding import BeamHistory, Hypothesis, Request, State, Step, search, search_beams
from sightline.decoding.beam import Fate
from sightline.tracing.likelihood import IdToText
from sightline.tracing.passes import Actions, DecoderPass, make_hooks
from sightline.tracing.plan import BYTES_PER_NUMBER, Plan


@dataclass(frozen=True)
class Node:
    """A hypothesis: its last token, and the scores of the whole up to there."""

    step: int
    """Number of tokens before it."""
    parent: int | None
    """Index of the node it continues; None at the first step."""
    id: int
    text: str
    token_log_probability: float
    log_probability: float
    """Of all tokens up to here."""
    score: float
    """The score it would be ranked by if it ended here."""
    fate: Fate
    """alive: it was continued; finished: it is complete; pruned: it fell out of the beam."""
    result: int | None
    """Its rank if it ends a result; 0 for the best, which is the target of the trace."""
    row: int
    """Its row in `Tree.attention`: siblings share one, as one decoder step proposed them."""


@dataclass(frozen=True)
class Tree:
    """The nodes in step order: parents come before their children."""

    nodes: tuple[Node, ...]
    attention: dict[str, Float[np.ndarray, "heads rows _"]] = field(default_factory=dict)
    """Attention weights of every hypothesis, by hook point: `attention[name][:, node.row]` has the weights of each
    head when the node's token was chosen. Empty unless `hypotheses` was set. In self-attention the columns are the
    tokens of the hypothesis (in a GPT, after the prompt), then zeros."""

    def path(self, index: int) -> list[int]:
        """Return the indices of the nodes from the first step to this one."""
        indices = []
        at: int | None = index
        while at is not None:
            indices.append(at)
            at = self.nodes[at].parent
        return indices[::-1]

    def results(self) -> list[int]:
        """Return the indices of the last nodes of the results, best first."""
        ends = [index for index, node in enumerate(self.nodes) if node.result is not None]
        return sorted(ends, key=lambda index: self.nodes[index].result or 0)


def search_with_history(step: Step, state: State, request: Request) -> tuple[Hypothesis, BeamHistory | None]:
    """Return the best hypothesis for the one sentence of a request, and the history of the beam search, if any."""
    settings = request.settings
    if settings.do_sample or settings.beam_size == 1:
        return search(step, state, request)[0][0], None
    result = search_beams(step, state, request, keep_history=True)
    return result.hypotheses[0][0], result.histories[0]


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


WORKING_BYTES = 64_000_000
"""Memory for the weights of one attention layer while a batch runs."""


def compute_hypothesis_attention(
    forward_pass: DecoderPass, plan: Plan, expanded: ExpandedPrefixes, *, context: Sequence[int], interventions: Actions
) -> dict[str, Float[np.ndarray, "heads rows _"]]:
    """Return the attention weights of every hypothesis, by running the decoder on the longest ones.

    Decoder attention is causal: the rows of a prefix are the same in every hypothesis that extends it.
    """
    shapes = hypothesis_attention_shapes(plan, expanded, n_context=len(context))
    found = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    if not found:
        return found
    numbers = {prefix: number for number, prefix in enumerate(expanded.prefixes)}
    heads = list(range(forward_pass.model.config.n_heads)) if plan.heads is None else list(plan.heads)
    pending = sorted(expanded.leaves(), key=len)
    n_tokens = len(context) + expanded.max_length()
    n_keys = max(keys for _, _, keys in shapes.values())
    size = max(1, WORKING_BYTES // (BYTES_PER_NUMBER * forward_pass.model.config.n_heads * n_tokens * n_keys))
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
    return sum(BYTES_PER_NUMBER * heads * rows * keys for heads, rows, keys in shapes)
