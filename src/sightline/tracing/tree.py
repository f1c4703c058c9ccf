"""Everything a beam search looked at, as one tree that can be drawn."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from sightline.decoding.history import Fate


@dataclass(frozen=True)
class Node:
    """A hypothesis: its newest token, and the numbers of the whole up to there."""

    step: int
    """How many tokens stand before it."""
    parent: int | None
    """The place of the node that it continues; None at the first step."""
    id: int
    text: str
    token_log_probability: float
    log_probability: float
    """Of all tokens up to here."""
    score: float
    """What it would be ranked by if it ended here."""
    fate: Fate
    """alive: it was continued; finished: it is complete; pruned: others were better."""
    result: int | None
    """Its rank if it is the end of a result, 0 for the best: the text that the trace is about."""
    row: int
    """Its row in `Tree.attention`: brothers share one, for they were chosen at one look."""


@dataclass(frozen=True)
class Tree:
    """The nodes in the order of their steps, so that parents come before their children."""

    nodes: tuple[Node, ...]
    attention: dict[str, Float[np.ndarray, "heads rows _"]] = field(default_factory=dict)
    """By probe name, where every hypothesis looked when it was continued: `attention[name][:, node.row]` is what
    each head saw when the node's token was chosen. Empty unless it was asked for. In self-attention the columns are
    the hypothesis's own tokens (in a GPT the prompt, then these), and zeros where it has no more."""

    def path(self, place: int) -> list[int]:
        """Return the places of the nodes from the first step to this one."""
        places = []
        at: int | None = place
        while at is not None:
            places.append(at)
            at = self.nodes[at].parent
        return places[::-1]

    def results(self) -> list[int]:
        """Return the places of the last nodes of the results, best first."""
        ends = [place for place, node in enumerate(self.nodes) if node.result is not None]
        return sorted(ends, key=lambda place: self.nodes[place].result or 0)
