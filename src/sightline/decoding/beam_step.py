"""One step of a beam search: its candidates, and which of them survive or finish."""

from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor

from sightline.decoding.candidates import Candidates
from sightline.decoding.hypothesis import FinishReason
from sightline.decoding.scores import length_penalty


@dataclass(frozen=True)
class BeamStep:
    """Candidates are addressed by group (an open sentence) and rank (among its candidates, best first)."""

    candidates: Candidates
    survivors: Candidates
    survivor_ranks: Int[Tensor, "B K"]
    """Ranks of the survivors among the candidates."""
    log_probabilities: Float[Tensor, "R V"]
    coverage: Float[Tensor, "R"]
    """Coverage penalty of the candidates that extend a row."""
    length: int
    """Number of tokens of each candidate."""
    alpha: float
    finished: dict[tuple[int, int], FinishReason] = field(default_factory=dict)
    """The candidates that are complete, by (group, rank), and why."""

    def parent(self, group: int, rank: int) -> int:
        """Return the row that a candidate extends."""
        return int(self.candidates.parents[group, rank])

    def token(self, group: int, rank: int) -> int:
        """Return the newest token of a candidate."""
        return int(self.candidates.tokens[group, rank])

    def log_probability(self, group: int, rank: int) -> float:
        """Return the model's log-probability of the newest token."""
        return float(self.log_probabilities[self.parent(group, rank), self.token(group, rank)])

    def score(self, group: int, rank: int) -> float:
        """Return the score by which a candidate is ranked once complete."""
        total = float(self.candidates.totals[group, rank])
        return total / length_penalty(self.length, self.alpha) + float(self.coverage[self.parent(group, rank)])
