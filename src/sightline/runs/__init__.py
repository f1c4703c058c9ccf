"""Training runs: from a recipe and data to a model folder. The command line and Python call the same functions."""

from sightline.runs.training_run import Result, overfit_batch, train

__all__ = ["Result", "overfit_batch", "train"]
