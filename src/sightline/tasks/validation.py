"""What a task scores during training: the model, the validation set, and the loss on it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.bundle.calibration import Calibration
    from sightline.data.datasets.examples import Examples
    from sightline.training.report import Sample
    from sightline.training.state import Metric

N_SAMPLES = 3
"""Outputs shown with every validation."""
SAMPLE_TOKENS = 40
SAMPLE_STREAM = 9
"""Random stream that selects the samples."""


@dataclass(frozen=True)
class FinalScores:
    """What is measured once more at the end of a run, with the saved model."""

    scores: "dict[str, Metric]"
    samples: "tuple[Sample, ...]"
    calibration: "Calibration | None" = None


@dataclass(frozen=True)
class Validation:
    """One validation of a model in training."""

    pipeline: Any
    """The pipeline of the task, with the model as it is now."""
    examples: "Examples"
    loss: float
    tallies: dict[str, float]
    """Means of what the objective counts besides the loss, such as the share of correct predictions."""
    seed: int

    def sample(self, n: int) -> list[int]:
        """Return the numbers of up to n examples of the validation set, the same ones at every validation."""
        import numpy as np

        from sightline.data.datasets.stateless_random import permutation

        numbers = np.flatnonzero(self.examples.valid.selected)
        chosen: list[int] = numbers[permutation(len(numbers), self.seed, SAMPLE_STREAM)[:n]].tolist()
        return chosen

    def sample_texts(self, n: int) -> list[list[int]]:
        """Return the first ids of some texts, short enough for the model even if decoding changes their length."""
        dataset, room = self.examples.valid.dataset, self.pipeline.max_length or SAMPLE_TOKENS
        length = max(1, min(SAMPLE_TOKENS, room // 2))
        return [dataset.sequence(number).tolist()[:length] for number in self.sample(n)]
