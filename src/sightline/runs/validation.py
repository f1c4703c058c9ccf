"""Validate a model: the loss over the validation set, then what its task scores."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from sightline.bundle import Bundle
from sightline.bundle.training_facts import InputExample
from sightline.data.datasets.batch_source import BatchSource
from sightline.data.datasets.examples import Examples
from sightline.model import Model
from sightline.tasks import Task, pipeline_for
from sightline.tasks.validation import FinalScores, Validation
from sightline.training.metrics import VALIDATION_LOSS, ValidationResult
from sightline.training.objective import Objective

MAX_INPUTS = 2_000
"""Inputs of the validation set that are looked at, to know what is usual."""


@dataclass(frozen=True)
class Validator:
    """Validates the current model of a run."""

    task: Task
    bundle: Bundle
    examples: Examples
    batch_source: BatchSource
    objective: Objective
    seed: int

    def __call__(self) -> ValidationResult:
        """Compute the loss, then the score of the task."""
        loss, tallies = mean_loss(self.bundle.model, self.batch_source, self.objective)
        return self.task.validate(Validation(pipeline_for(self.bundle), self.examples, loss, tallies, self.seed))

    def final(self, bundle: Bundle) -> FinalScores | None:
        """Score the saved model once more at the end of the run, if its task asks for that."""
        validation = Validation(pipeline_for(bundle), self.examples, math.nan, {}, self.seed)
        return self.task.score_final(validation, bundle.generation)

    def inputs(self) -> list[InputExample]:
        """Return inputs of the validation set as people give them, the same ones at every call."""
        validation = Validation(pipeline_for(self.bundle), self.examples, math.nan, {}, self.seed)
        return list(self.task.validation_inputs(validation, MAX_INPUTS))


SPREAD = "_spread"
"""Ending of the name of a score's standard deviation over the folds."""


@dataclass(frozen=True)
class FoldScores:
    """The scores of the folds: what the final model is given instead of a validation."""

    scores: Mapping[str, float]
    """Means over the folds, each with its standard deviation."""
    best_steps: tuple[int, ...]
    """The step of the best model of each fold."""

    def __call__(self) -> ValidationResult:
        """Return the means."""
        loss = self.scores[VALIDATION_LOSS]
        name = next((name for name in self.scores if not name.startswith(VALIDATION_LOSS)), VALIDATION_LOSS)
        return ValidationResult(loss, (name, self.scores[name]), True, dict(self.scores))

    def final(self, bundle: Bundle) -> FinalScores | None:  # noqa: ARG002
        """Return nothing: there is nothing to score the final model on."""
        return None

    def inputs(self) -> list[InputExample]:
        """Return nothing: the final model has learned every example."""
        return []

    def describe(self) -> str:
        """Return the scores with their spread."""
        parts = []
        for name, value in self.scores.items():
            if f"{name}{SPREAD}" in self.scores:
                parts.append(f"{name} {value:.4g} ± {self.scores[f'{name}{SPREAD}']:.2g}")
        return f"{len(self.best_steps)} folds, each validated on examples it was not trained on: {', '.join(parts)}"


@torch.inference_mode()
def mean_loss(model: Model, batch_source: BatchSource, objective: Objective) -> tuple[float, dict[str, float]]:
    """Return the mean loss per target over all batches, and the means of the tallies."""
    total, count = 0.0, 0
    tallies: dict[str, tuple[float, int]] = {}
    device = next(model.parameters()).device
    for batch in batch_source.epoch(0):
        loss = objective(model, batch.to(device))
        total, count = total + float(loss.total), count + loss.count
        for name, (value, n) in loss.tallies.items():
            value_sum, n_sum = tallies.get(name, (0.0, 0))
            tallies[name] = (value_sum + value, n_sum + n)
    return total / max(1, count), {name: value / max(1, n) for name, (value, n) in tallies.items()}
