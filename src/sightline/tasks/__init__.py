"""Tasks, one file each: data, allowed families, pipeline, scores, next command, request fields, studio view.

    task           what a row holds, with the defaults
    registry       the rows, `register`, and what is found by them
    translation, chat, language_model, masked_language_model, classification
    pairs          what translation and chat share
    validation     what a task scores during training
    loading        `load` opens a model folder as the pipeline for its task
    evaluation     `evaluate` scores a model on a test set

Nothing elsewhere knows a task by its name. Adding one is a subclass of `Task`, `register`, and a recipe.
"""

from sightline.tasks.evaluation import evaluate
from sightline.tasks.loading import load, pipeline_for
from sightline.tasks.registry import TASKS, families_for, register, task_of
from sightline.tasks.task import BatchPlan, RequestField, StudioView, Task, TaskSettings

__all__ = [
    "TASKS",
    "BatchPlan",
    "RequestField",
    "StudioView",
    "Task",
    "TaskSettings",
    "evaluate",
    "families_for",
    "load",
    "pipeline_for",
    "register",
    "task_of",
]
