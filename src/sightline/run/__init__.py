"""A recipe carried out, from a text file to a model folder. The command line and Python call the same functions."""

from sightline.run.recipe import Recipe, read_recipe, shipped
from sightline.run.training_run import Result, check, train

__all__ = ["Recipe", "Result", "check", "read_recipe", "shipped", "train"]
