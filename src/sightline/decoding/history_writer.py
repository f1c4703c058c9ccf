"""Writes the history of one sentence while its beam search goes on."""

from sightline.decoding.history import BeamHistory, BeamNode, Fate
from sightline.decoding.turn import Turn


class HistoryWriter:
    """Knows which node each live hypothesis is, so that the next step's nodes find their parents."""

    def __init__(self) -> None:
        self.steps: list[tuple[BeamNode, ...]] = []
        self.index_of_place: list[dict[int, int]] = []
        self.index_of_beam: list[int | None] = [None]

    def add(self, turn: Turn, group: int) -> None:
        """Add one step: the best 2 K candidates, and all others that lived on or were complete."""
        places = turn.places[group].tolist()
        nodes = {place: self._node(turn, group, place, fate) for place, fate in sorted(_fates(turn, group).items())}
        indices = {place: index for index, place in enumerate(nodes)}
        self.steps.append(tuple(nodes.values()))
        self.index_of_place.append(indices)
        self.index_of_beam = [indices.get(place) for place in places]

    def history(self, endings: list[tuple[int, int]]) -> BeamHistory:
        """Return what was written; `endings` are step and place of the results."""
        found = tuple((step, self.index_of_place[step][place]) for step, place in endings)
        return BeamHistory(tuple(self.steps), found)

    def _node(self, turn: Turn, group: int, place: int, fate: Fate) -> BeamNode:
        parent = self.index_of_beam[turn.parent(group, place) - group * len(self.index_of_beam)]
        value = turn.log_probability(group, place)
        return BeamNode(
            token=turn.token(group, place),
            token_log_probability=value,
            log_probability=value + (self.steps[-1][parent].log_probability if parent is not None else 0.0),
            score=turn.score(group, place),
            parent=parent,
            fate=fate,
        )


def _fates(turn: Turn, group: int) -> dict[int, Fate]:
    """Return what becomes of each candidate that is worth a node."""
    places = turn.places[group].tolist()
    filled = turn.candidates.alive()[group, : 2 * len(places)].tolist()
    lives = turn.survivors.alive()[group].tolist()
    fates: dict[int, Fate] = {place: "pruned" for place, there in enumerate(filled) if there}
    fates |= {place: "alive" for place, living in zip(places, lives, strict=True) if living}
    fates |= {place: "finished" for owner, place in turn.finished if owner == group}
    return fates
