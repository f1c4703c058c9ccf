"""The best complete hypotheses of one sentence so far."""

import bisect
import math
from dataclasses import dataclass, field

from sightline.decoding.hypothesis import Hypothesis


@dataclass
class FinishedHypotheses:
    """At most `size` hypotheses, best first, the earlier one first in a tie."""

    size: int
    hypotheses: list[Hypothesis] = field(default_factory=list)
    endings: list[tuple[int, int]] = field(default_factory=list)
    """For each, the step at which it finished and its rank among the candidates there."""

    @property
    def worst(self) -> float:
        """The score that a new hypothesis must exceed to be added."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -math.inf

    def add(self, hypothesis: Hypothesis, ending: tuple[int, int]) -> None:
        """Insert a hypothesis by its score and drop the last if there are now too many."""
        index = bisect.bisect_right(self.hypotheses, -hypothesis.score, key=lambda other: -other.score)
        self.hypotheses.insert(index, hypothesis)
        self.endings.insert(index, ending)
        del self.hypotheses[self.size :], self.endings[self.size :]
