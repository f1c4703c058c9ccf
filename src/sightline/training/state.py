"""All that decides how a run goes on, in memory and as named tensors: what a checkpoint holds.

    model       the weights
    optimizer   what the optimiser remembers of every parameter, as PARAMETER.WHAT
    average     the running average of the weights, if there is one
    gradients   those of batches that wait for the next update, if there are any

Everything else is numbers: how far the run has come, where in the data it is, its scores, its random generators.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sightline.bundle.weights import check_tensors
from sightline.errors import RefusedError
from sightline.model.registry import Model
from sightline.settings import Checks
from sightline.training.average import RunningAverage
from sightline.training.optimizer import Optimizer
from sightline.training.tensor_file import TensorFile

Metric = float | int | str | None
Shape = tuple[int, ...]

REMEMBERED: dict[str, dict[str, bool]] = {
    "Adam": {"step": False, "exp_avg": True, "exp_avg_sq": True},
    "AdamW": {"step": False, "exp_avg": True, "exp_avg_sq": True},
    "Muon": {"momentum_buffer": True},
}
"""What torch's optimisers keep of a parameter, and whether it has the parameter's shape or is one number."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    """Updates done."""
    accumulated: int = 0
    """Batches whose gradients wait for the next update."""
    seed: int = 0
    epoch: int = 0
    position: int = 0
    """Batches of this epoch that have been read; with seed and epoch, the place in the data."""
    skipped: int = 0
    """Updates that were not done because a gradient was not finite."""
    seconds: float = 0.0
    """Time spent, over all resumes."""
    best_step: int | None = None
    """The step with the best score so far: its checkpoint is kept."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        for name, value in vars(self).items():
            checks.that(value is None or 0 <= value < 1 << 63, f"{name} must be 0 or more, not {value}")
        checks.done()


@dataclass
class TrainingState:
    """The live objects of a run."""

    model: Model
    optimizer: Optimizer
    average: RunningAverage | None = None
    progress: Progress = field(default_factory=Progress)
    metrics: dict[str, Metric] = field(default_factory=dict)
    """Scores so far, for early stopping and the final report; their history is the log's."""

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return all tensors by kind and name; kinds that are empty now are left out."""
        named = dict(self.model.named_parameters())
        kinds = {
            "model": {name: parameter.detach() for name, parameter in named.items()},
            "optimizer": remembered(self.optimizer),
            "average": self.average.weights if self.average else {},
            "gradients": {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None},
        }
        return {kind: tensors for kind, tensors in kinds.items() if tensors}

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every parameter."""
        return {name: tuple(parameter.shape) for name, parameter in self.model.named_parameters()}

    def check(self, files: Mapping[str, TensorFile]) -> None:
        """Refuse files that are not a state of this model and this optimiser, before anything is read or changed."""
        shapes = self.shapes()
        for kind, file in files.items():
            if kind == "optimizer":
                expected = self.remembered_shapes(file)
            elif kind == "gradients":
                expected = {name: shape for name, shape in shapes.items() if name in file.header.tensors}
            else:
                expected = shapes
            check_tensors(file.header, expected, file.path, against="the model that is trained")
        if ("average" in files) != (self.average is not None):
            has, wants = ("a", "none") if "average" in files else ("no", "one")
            raise RefusedError(
                f"the checkpoint has {has} running average of the weights, but the settings ask for {wants}: "
                "resume with the average_decay the run began with"
            )

    def remembered_shapes(self, file: TensorFile) -> dict[str, Shape]:
        """Return what the optimiser keeps of those parameters that the file mentions: all of it or nothing."""
        mentioned = {name.rpartition(".")[0] for name in file.header.tensors}
        return {
            f"{name}.{key}": tuple(parameter.shape) if full else ()
            for part in self.optimizer.parts
            for group in part.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
            if name in mentioned
            for key, full in REMEMBERED[type(part).__name__].items()
        }

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take on the tensors of a checkpoint that `check` has found to fit."""
        gradients = tensors.get("gradients", {})
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors["model"][name])
            gradient = gradients.get(name)
            parameter.grad = None if gradient is None else gradient.to(parameter)
        if self.average is not None:
            for name, weight in self.average.weights.items():
                weight.copy_(tensors["average"][name])
        remember(self.optimizer, tensors.get("optimizer", {}))


def remembered(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return what the optimiser keeps, by parameter and what it is."""
    return {
        f"{name}.{key}": value.detach()
        for part in optimizer.parts
        for group in part.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
        for key, value in part.state.get(parameter, {}).items()
    }


def remember(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Let the optimiser remember these tensors and nothing else; torch moves them where it wants them."""
    for part in optimizer.parts:
        names = [name for group in part.param_groups for name in group["param_names"]]
        state = {
            index: {key: tensors[f"{name}.{key}"] for key in REMEMBERED[type(part).__name__]}
            for index, name in enumerate(names)
            if any(f"{name}.{key}" in tensors for key in REMEMBERED[type(part).__name__])
        }
        part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})
