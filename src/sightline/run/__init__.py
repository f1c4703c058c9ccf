"""Training runs: from a recipe and data to a model folder. The command line and Python call the same functions."""

from sightline.run.recipe import Recipe, list_recipes, read_recipe
from sightline.run.training_run import Result, overfit_batch, train

__all__ = ["Recipe", "Result", "list_recipes", "overfit_batch", "read_recipe", "train"]
