"""Cross-validation: train a model for each fold of a small corpus, and the final model on all of it.

RUN/folds/1, 2, … are runs of their own: those that are finished are not repeated, one that was stopped is resumed. The
scores of the final model, which has no examples left to be validated on, are the means over the folds.
"""

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sightline.errors import SightlineError
from sightline.runs.recipe import Recipe
from sightline.runs.run_record import read_run_record
from sightline.runs.validation import SPREAD, FoldScores

FOLDS = "folds"


def has_folds(recipe: Recipe) -> bool:
    """Return whether a recipe asks for a model of each fold, and one on all data."""
    data = recipe.sections["data"]
    return bool(data.get("folds")) and data.get("fold") is None


def fold_recipes(recipe: Recipe, folder: Path) -> dict[Path, Recipe]:
    """Return the recipe of each fold, by the folder of its run."""
    folds = recipe.data.folds
    return {folder / FOLDS / str(fold): recipe.with_values({"data.fold": fold}) for fold in range(1, folds + 1)}


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder has come to its end."""
    record = read_run_record(folder)
    outcome = (record or {}).get("outcome")
    return isinstance(outcome, dict) and outcome.get("stop_reason") != "signal"


def collect_fold_scores(folders: Iterable[Path]) -> FoldScores:
    """Return the means and the spread of the scores of finished folds."""
    outcomes: list[dict[str, Any]] = [(read_run_record(folder) or {})["outcome"] for folder in folders]
    best = [outcome["progress"]["best_step"] for outcome in outcomes]
    if not all(isinstance(step, int) for step in best):
        raise SightlineError(
            "a fold has saved no model, as no validation gave a finite score: try a lower learning rate"
        )
    numbers: dict[str, list[float]] = {}
    for outcome in outcomes:
        for name, value in outcome["scores"].items():
            if isinstance(value, int | float):
                numbers.setdefault(name, []).append(float(value))
    scores: dict[str, float] = {}
    for name, values in numbers.items():
        if len(values) == len(outcomes):
            scores |= {name: statistics.fmean(values), f"{name}{SPREAD}": statistics.stdev(values)}
    return FoldScores(scores, tuple(best))


def final_recipe(recipe: Recipe, found: FoldScores) -> Recipe:
    """Return the recipe of the final model: as long as was best for the folds, as it has more data than they had."""
    folds = recipe.data.folds
    steps = max(1, round(statistics.median(found.best_steps) * folds / (folds - 1)))
    return recipe.with_values({"training.max_steps": steps, "training.best_metric": "last"})
