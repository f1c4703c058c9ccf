"""Cross-validation: train a model for each fold of a small corpus, and the final model on all of it.

RUN/folds/1, 2, … are runs of their own: those that are finished are not repeated, one that was stopped is resumed, with
`--resume --out RUN` like any other run. The scores of the final model, which has no examples left to be validated on,
are the means over the folds.
"""

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sightline.errors import RefusedError, SightlineError
from sightline.runs.folder import FOLDS
from sightline.runs.recipe import Recipe
from sightline.runs.run_record import check_settings_match, hash_files, read_run_record
from sightline.runs.validation import SPREAD, FoldScores


def has_folds(recipe: Recipe) -> bool:
    """Return whether a recipe asks for a model of each fold, and one on all data."""
    data = recipe.sections["data"]
    return bool(data.get("folds")) and data.get("fold") is None


def fold_recipes(recipe: Recipe, folder: Path) -> dict[Path, Recipe]:
    """Return the recipe of each fold, by the folder of its run; they and the final model share a limit in minutes."""
    folds, minutes = recipe.data.folds, recipe.sections["training"].get("max_minutes")
    limit = {"training.max_minutes": minutes / (folds + 1)} if isinstance(minutes, int | float) else {}
    return {
        folder / FOLDS / str(fold): recipe.with_values({"data.fold": fold, **limit}) for fold in range(1, folds + 1)
    }


def whole_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of all folds and the final model from that of a fold."""
    minutes = recipe.sections["training"].get("max_minutes")
    limit = {"training.max_minutes": minutes * (recipe.data.folds + 1)} if isinstance(minutes, int | float) else {}
    return recipe.with_values({"data.fold": None, **limit})


def check_finished_fold(recipe: Recipe, folder: Path) -> list[str]:
    """Refuse to take a fold of other settings or another corpus for one of this run; return harmless differences."""
    record = read_run_record(folder) or {}
    changed = check_settings_match(record["recipe"], recipe.to_mapping(), folder)
    is_builtin = any(name.startswith("builtin:") for names in recipe.data.names("train") for name in names)
    if not is_builtin and hash_files(recipe.data) != record["resolved"]["data"]["sha256"]:
        raise RefusedError(f"{folder} was trained on other contents of the data files: start again in another folder")
    return changed


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
    length = {"training.max_steps": steps, "training.max_epochs": None, "training.max_minutes": None}
    # There is nothing to validate on: the only validation, at the end, gives it the scores of the folds.
    return recipe.with_values({**length, "training.best_metric": "last", "training.validate_every": steps})
