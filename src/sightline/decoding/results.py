"""The best complete hypotheses of one sentence so far."""

import bisect
import math
from dataclasses import dataclass, field

from sightline.decoding.hypothesis import Hypothesis


@dataclass
class Results:
    """At most `size` of them, best first, the earlier one first in a tie."""

    size: int
    hypotheses: list[Hypothesis] = field(default_factory=list)
    endings: list[tuple[int, int]] = field(default_factory=list)
    """For each the step at which it was complete and its place among the candidates there."""

    @property
    def worst(self) -> float:
        """The score that a new one must exceed to be taken."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -math.inf

    def add(self, hypothesis: Hypothesis, ending: tuple[int, int]) -> None:
        """Put a hypothesis in its place and drop the last if there are now too many."""
        place = bisect.bisect_right(self.hypotheses, -hypothesis.score, key=lambda other: -other.score)
        self.hypotheses.insert(place, hypothesis)
        self.endings.insert(place, ending)
        del self.hypotheses[self.size :], self.endings[self.size :]
