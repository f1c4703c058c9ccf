"""What a validation found: the loss, the task's score, and a few outputs to look at."""

from dataclasses import dataclass, field

from sightline.training.report import Sample
from sightline.training.settings import BestBy


@dataclass(frozen=True)
class Validation:
    """How good a model is on examples it did not learn from."""

    loss: float
    """Cross-entropy a token (or label), without smoothing."""
    score: tuple[str, float]
    """What the task is judged by, and its value."""
    higher_is_better: bool
    others: dict[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()

    def record(self) -> dict[str, float]:
        """Return all values by name."""
        name, value = self.score
        return {"validation_loss": self.loss, name: value, **self.others}

    def merit(self, best_by: BestBy) -> float:
        """Return one number that is higher for a better model."""
        if best_by == "loss":
            return -self.loss
        return self.score[1] if self.higher_is_better else -self.score[1]
