"""The result of a validation: the loss, the task's score, and sample outputs."""

from dataclasses import dataclass, field

from sightline.training.metrics import VALIDATION_LOSS
from sightline.training.report import Sample
from sightline.training.settings import BestMetric


@dataclass(frozen=True)
class ValidationResult:
    """Loss and scores of a model on the validation set."""

    loss: float
    """Cross-entropy per token (or label), without label smoothing."""
    score: tuple[str, float]
    """Name and value of the task's main metric."""
    higher_is_better: bool
    other_scores: dict[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()

    def to_record(self) -> dict[str, float]:
        """Return all values by name."""
        name, value = self.score
        return {VALIDATION_LOSS: self.loss, name: value, **self.other_scores}

    def selection_key(self, best_metric: BestMetric, *, step: int) -> tuple[float, float]:
        """Return a key that is higher for a better model: the score, then the loss to break ties.

        Ties are common: BLEU is 0 for every model as long as all sentences are short.
        """
        if best_metric == "last":
            return float(step), 0.0
        loss, score = float(self.loss), float(self.score[1])  # not NumPy's
        return (-loss, 0.0) if best_metric == "loss" else (score if self.higher_is_better else -score, -loss)
