"""What a validation found: the loss, the task's score, and a few outputs to look at."""

from dataclasses import dataclass, field

from sightline.training.metrics import VALIDATION
from sightline.training.report import Sample
from sightline.training.settings import BestBy


@dataclass(frozen=True)
class Validation:
    """How good a model is on examples it did not learn from."""

    loss: float
    """Cross-entropy a token (or label), without smoothing; what the run itself learns by."""
    score: tuple[str, float]
    """What the task is judged by, and its value."""
    higher_is_better: bool
    others: dict[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()

    def record(self) -> dict[str, float]:
        """Return all values by name."""
        name, value = self.score
        return {VALIDATION: self.loss, name: value, **self.others}

    def merit(self, best_by: BestBy, *, step: int) -> tuple[float, float]:
        """Return what is higher for a better model: the score, and where scores are equal the loss decides.

        They are equal more often than one would think: BLEU is 0 for every model as long as all sentences are short.
        """
        if best_by == "last":
            return float(step), 0.0
        score = self.score[1] if self.higher_is_better else -self.score[1]
        return (-self.loss, 0.0) if best_by == "loss" else (score, -self.loss)
