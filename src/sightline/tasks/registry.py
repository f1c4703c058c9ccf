"""The tasks, a row each, and what is found by one: the families that can do it, the task of a pipeline."""

from typing import TYPE_CHECKING, Any

from sightline.model.registry import FAMILIES, interface_of, resolve
from sightline.tasks.chat import Chat
from sightline.tasks.classification import Classification
from sightline.tasks.language_model import LanguageModel
from sightline.tasks.masked_language_model import MaskedLanguageModel
from sightline.tasks.task import Task
from sightline.tasks.translation import Translation

if TYPE_CHECKING:
    from sightline.model.config import ModelConfig

TASKS: dict[str, Task] = {}


def register(task: Task) -> None:
    """Add a task; a name belongs to one task only."""
    if task.name in TASKS:
        raise ValueError(f"the task {task.name} is registered already")
    TASKS[task.name] = task


for built_in in (Translation(), Chat(), LanguageModel(), MaskedLanguageModel(), Classification()):
    register(built_in)


def families_for(task: Task) -> list[str]:
    """Return the names of the families that can do a task: those whose models implement one of its interfaces."""
    interfaces = {resolve(interface) for interface in task.interfaces}
    return [family.name for family in FAMILIES.values() if resolve(family.interface) in interfaces]


def task_of(pipeline: Any) -> Task | None:
    """Return the task of a pipeline: the one its model was trained for, else the one its class is made for."""
    if pipeline.task in TASKS:
        return TASKS[pipeline.task]
    kind = type(pipeline)
    return next((task for task in TASKS.values() if task.pipeline == f"{kind.__module__}:{kind.__qualname__}"), None)


def infer_task(config: "ModelConfig") -> Task | None:
    """Return the task of a model whose folder names none: the first whose usual interface and head it has."""
    interface = interface_of(config)
    return next(
        (task for task in TASKS.values() if resolve(task.interfaces[0]) is interface and task.suits(config)), None
    )
