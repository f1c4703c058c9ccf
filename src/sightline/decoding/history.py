"""The history of a beam search for one sentence: a tree of all considered hypotheses."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Fate: TypeAlias = Literal["alive", "finished", "pruned"]
"""What became of a candidate: extended further, complete, or pruned for better ones."""


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis at one step: its newest token, and the log-probability and score up to there."""

    token: int
    token_log_probability: float
    log_probability: float
    score: float
    """The score it would be ranked by if it ended here."""
    parent: int | None
    """Index of its parent among the nodes of the previous step; None at the first step."""
    fate: Fate


@dataclass(frozen=True)
class BeamHistory:
    """All steps of one sentence; a node is addressed by its step and its index there."""

    steps: tuple[tuple[BeamNode, ...], ...]
    endings: tuple[tuple[int, int], ...]
    """Step and index of the last node of each result, best first."""

    def path(self, step: int, index: int) -> list[BeamNode]:
        """Return the nodes from the first step to this one."""
        nodes = []
        at: int | None = index
        while at is not None:
            nodes.append(self.steps[step][at])
            at, step = nodes[-1].parent, step - 1
        return nodes[::-1]
