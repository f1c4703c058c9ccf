"""What one step of a beam search brought, before anything is decided about it."""

from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.candidates import Candidates
from sightline.decoding.hypothesis import Finish
from sightline.decoding.scores import length_penalty


@dataclass(frozen=True)
class Turn:
    """Everything is found by group (an open sentence) and place (among its candidates)."""

    candidates: Candidates
    survivors: Candidates
    places: Int[Tensor, "B K"]
    """Where the survivors stand among the candidates."""
    log_probabilities: Float[Tensor, "R V"]
    coverage: Float[Tensor, "R"]
    """The coverage penalty of whatever continues a row."""
    length: int
    """Tokens of each candidate."""
    alpha: float
    finished: dict[tuple[int, int], Finish] = field(default_factory=dict)
    """The candidates that are complete, and why."""

    def parent(self, group: int, place: int) -> int:
        """Return the row that a candidate continues."""
        return int(self.candidates.parents[group, place])

    def token(self, group: int, place: int) -> int:
        """Return the newest token of a candidate."""
        return int(self.candidates.tokens[group, place])

    def log_probability(self, group: int, place: int) -> float:
        """Return what the model gives to the newest token."""
        return float(self.log_probabilities[self.parent(group, place), self.token(group, place)])

    def score(self, group: int, place: int) -> float:
        """Return what a candidate is ranked by if it is complete."""
        total = float(self.candidates.totals[group, place])
        return total / length_penalty(self.length, self.alpha) + float(self.coverage[self.parent(group, place)])
