"""Records the history of one sentence during its beam search."""

from sightline.decoding.beam_step import BeamStep
from sightline.decoding.history import BeamHistory, BeamNode, Fate


class HistoryWriter:
    """Tracks the node of each live hypothesis, so that the nodes of the next step find their parents."""

    def __init__(self) -> None:
        self.steps: list[tuple[BeamNode, ...]] = []
        self.index_of_rank: list[dict[int, int]] = []
        self.index_of_beam: list[int | None] = [None]

    def add(self, step: BeamStep, group: int) -> None:
        """Add one step: the best 2 K candidates, and all others that survived or finished."""
        survivor_ranks = step.survivor_ranks[group].tolist()
        nodes = {rank: self._node(step, group, rank, fate) for rank, fate in sorted(_fates(step, group).items())}
        indices = {rank: index for index, rank in enumerate(nodes)}
        self.steps.append(tuple(nodes.values()))
        self.index_of_rank.append(indices)
        self.index_of_beam = [indices.get(rank) for rank in survivor_ranks]

    def history(self, endings: list[tuple[int, int]]) -> BeamHistory:
        """Return the recorded history; `endings` are step and rank of the results."""
        found = tuple((step, self.index_of_rank[step][rank]) for step, rank in endings)
        return BeamHistory(tuple(self.steps), found)

    def _node(self, step: BeamStep, group: int, rank: int, fate: Fate) -> BeamNode:
        parent = self.index_of_beam[step.parent(group, rank) - group * len(self.index_of_beam)]
        value = step.log_probability(group, rank)
        return BeamNode(
            token=step.token(group, rank),
            token_log_probability=value,
            log_probability=value + (self.steps[-1][parent].log_probability if parent is not None else 0.0),
            score=step.score(group, rank),
            parent=parent,
            fate=fate,
        )


def _fates(step: BeamStep, group: int) -> dict[int, Fate]:
    """Return the fate of each candidate that gets a node, by rank."""
    survivor_ranks = step.survivor_ranks[group].tolist()
    is_filled = step.candidates.alive()[group, : 2 * len(survivor_ranks)].tolist()
    is_alive = step.survivors.alive()[group].tolist()
    fates: dict[int, Fate] = {rank: "pruned" for rank, filled in enumerate(is_filled) if filled}
    fates |= {rank: "alive" for rank, alive in zip(survivor_ranks, is_alive, strict=True) if alive}
    fates |= {rank: "finished" for other, rank in step.finished if other == group}
    return fates
