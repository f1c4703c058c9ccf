"""All hypotheses of a beam search, as a tree."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from sightline.decoding.history import Fate


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
