"""The training state, in memory and as named tensors and JSON: what a checkpoint holds and a resumed run needs."""

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.bundle.weights import TensorFile, check_tensors
from sightline.config import Checks
from sightline.errors import InputError, RefusedError, SettingsError
from sightline.model.interfaces import Model
from sightline.training.optimizer import ExponentialMovingAverage, Optimizer

Metric = float | int | str | None
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    step: int = 0
    """Updates done."""
    accumulated: int = 0
    """Batches whose gradients are accumulated for the next update."""
    seed: int = 0
    epoch: int = 0
    position: int = 0
    """Batches read in this epoch; with seed and epoch, the position in the data."""
    skipped: int = 0
    """Updates skipped because a gradient was not finite."""
    seconds: float = 0.0
    """Training time over all resumes."""
    best_step: int | None = None
    """Step of the best model so far: its checkpoint is kept."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class LoopState:
    """What the loop decides by, besides the progress; the same on all ranks."""

    tokens: int = 0
    """Tokens (or labels) of all updates, over all ranks."""
    validated_step: int = 0
    """Step of the last validation, 0 before the first."""
    best_selection_key: tuple[float, ...] | None = None
    """Selection key of the best model so far (`ValidationResult.selection_key`), None before there is one."""
    validations_without_improvement: int = 0
    """Validations since the best one, for early stopping."""

    def __post_init__(self) -> None:
        check_fields(self, signed=("best_selection_key",))
        if self.best_selection_key is not None and len(self.best_selection_key) != 2:
            raise SettingsError(f"best_selection_key must be two numbers, not {len(self.best_selection_key)}")


@dataclass(frozen=True)
class RunningSums:
    """Sums over the batches of one rank."""

    pending_tokens: int = 0
    """Tokens (or labels) since the last update: its gradients are divided by them."""
    window_loss: float = 0.0
    """Summed loss since the last log line."""
    window_tokens: int = 0
    """Tokens (or labels) of this loss."""

    def __post_init__(self) -> None:
        check_fields(self, signed=("window_loss",))


def check_fields(fields: object, *, signed: Collection[str] = ()) -> None:
    """Reject fields of another type than annotated, and negative ones but those that are signed."""
    checks = Checks()
    checks.types_of(fields)
    for name, value in vars(fields).items():
        fits = name in signed or value is None or 0 <= value < 1 << 63
        checks.that(fits, f"{name} must be 0 or more, not {value}")
    checks.done()


@dataclass
class TrainingState:
    """The live objects of a run; the random generators, which are global, are captured by `RandomStates`."""

    model: Model
    optimizer: Optimizer
    ema: ExponentialMovingAverage | None = None
    progress: Progress = field(default_factory=Progress)
    loop: LoopState = field(default_factory=LoopState)
    sums: RunningSums = field(default_factory=RunningSums)
    metrics: dict[str, Metric] = field(default_factory=dict)
    """Latest metrics, for people: nothing depends on them; their history is in metrics.jsonl."""

    @property
    def device(self) -> torch.device:
        """The device of the model, which batches, optimizer, EMA and gradients follow."""
        return next(self.model.parameters()).device

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return all tensors by kind and name; empty kinds are left out.

        model       the weights
        optimizer   the optimizer's state of every parameter, as PARAMETER.KEY
        ema         the exponential moving average of the weights, if there is one
        gradients   accumulated gradients that wait for the next update, if there are any
        """
        named = dict(self.model.named_parameters())
        kinds = {
            "model": {name: parameter.detach() for name, parameter in named.items()},
            "optimizer": collect_optimizer_state(self.optimizer),
            "ema": self.ema.weights if self.ema else {},
            "gradients": {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None},
        }
        return {kind: tensors for kind, tensors in kinds.items() if tensors}

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every parameter."""
        return {name: tuple(parameter.shape) for name, parameter in self.model.named_parameters()}

    def check(self, files: Mapping[str, TensorFile]) -> None:
        """Reject files that do not fit this model and optimizer, before anything is read or changed."""
        shapes = self.shapes()
        for kind, file in files.items():
            if kind == "optimizer":
                expected = self.optimizer_state_shapes(file)
            elif kind == "gradients":
                expected = {name: shape for name, shape in shapes.items() if name in file.header.tensors}
            else:
                expected = shapes
            check_tensors(file.header, expected, file.path, against="the model in training")
        if ("ema" in files) != (self.ema is not None):
            raise RefusedError(
                f"the checkpoint {'has' if 'ema' in files else 'has no'} EMA weights, but the settings ask for "
                f"{'none' if 'ema' in files else 'them'}: resume with the run's original ema_decay"
            )

    def optimizer_state_shapes(self, file: TensorFile) -> dict[str, Shape]:
        """Return the shapes of the optimizer state of each parameter that the file mentions: all of it or nothing."""
        mentioned = {name.rpartition(".")[0] for name in file.header.tensors}
        return {
            f"{name}.{key}": tuple(parameter.shape) if full else ()
            for part in self.optimizer.parts
            for group in part.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
            if name in mentioned
            for key, full in OPTIMIZER_STATE[type(part).__name__].items()
        }

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Load the tensors of a checkpoint that `check` has accepted."""
        gradients = tensors.get("gradients", {})
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors["model"][name])
            gradient = gradients.get(name)
            parameter.grad = None if gradient is None else gradient.to(parameter)
        if self.ema is not None:
            for name, weight in self.ema.weights.items():
                weight.copy_(tensors["ema"][name])
        load_optimizer_state(self.optimizer, tensors.get("optimizer", {}))


OPTIMIZER_STATE: dict[str, dict[str, bool]] = {
    "Adam": {"step": False, "exp_avg": True, "exp_avg_sq": True},
    "AdamW": {"step": False, "exp_avg": True, "exp_avg_sq": True},
    "Muon": {"momentum_buffer": True},
}
"""State that torch's optimizers keep per parameter: True if it has the parameter's shape, False if it is a scalar."""


def collect_optimizer_state(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the state of the optimizer as PARAMETER.KEY."""
    return {
        f"{name}.{key}": value.detach()
        for part in optimizer.parts
        for group in part.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
        for key, value in part.state.get(parameter, {}).items()
    }


def load_optimizer_state(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Replace the state of the optimizer; torch moves the tensors to the right device."""
    for part in optimizer.parts:
        names = [name for group in part.param_groups for name in group["param_names"]]
        state = {
            index: {key: tensors[f"{name}.{key}"] for key in OPTIMIZER_STATE[type(part).__name__]}
            for index, name in enumerate(names)
            if any(f"{name}.{key}" in tensors for key in OPTIMIZER_STATE[type(part).__name__])
        }
        part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})


@dataclass(frozen=True)
class RandomStates:
    """The states of all random generators a run may use, as JSON and back: a resumed run must draw the same numbers."""

    python: tuple[Any, ...]
    numpy: tuple[Any, ...]
    torch: Tensor
    cuda: tuple[Tensor, ...] = ()
    """That of this process's GPU, if it uses one (earlier checkpoints: one of every GPU, none of them used)."""
    mps: tuple[Tensor, ...] = ()
    """That of the Apple GPU, if there is one."""

    @classmethod
    def capture(cls) -> "RandomStates":
        """Return the current states."""
        return cls(
            random.getstate(),
            tuple(np.random.get_state()),  # noqa: NPY002 - users may draw from the global generator
            torch.get_rng_state(),
            (torch.cuda.get_rng_state(),) if uses_cuda() else (),
            (torch.mps.get_rng_state(),) if torch.backends.mps.is_available() else (),
        )

    def restore(self) -> None:
        """Set the generators to these states; a device that was not used before keeps its own."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        torch.set_rng_state(self.torch)
        if self.cuda and uses_cuda():
            torch.cuda.set_rng_state(self.cuda[0])
        if self.mps and torch.backends.mps.is_available():
            torch.mps.set_rng_state(self.mps[0])

    def to_entries(self) -> dict[str, object]:
        """Return the states as JSON holds them."""
        _, words, gauss = self.python
        _, keys, position, has_gauss, cached = self.numpy
        return {
            "python": {"words": words_to_hex(words), "gauss": gauss},
            "numpy": {
                "words": words_to_hex(keys.tolist()),
                "position": int(position),
                "has_gauss": int(has_gauss),
                "cached": float(cached),
            },
            "torch": self.torch.numpy().tobytes().hex(),
            "cuda": [state.numpy().tobytes().hex() for state in self.cuda],
            "mps": [state.numpy().tobytes().hex() for state in self.mps],
        }

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> "RandomStates":
        """Parse the states; each is tried on a new generator first, so that a bad one changes nothing."""
        try:
            python, numpy = entries["python"], entries["numpy"]
            states = cls(
                (random.Random.VERSION, tuple(words_from_hex(python["words"])), parse_python_gauss(python["gauss"])),
                (
                    "MT19937",
                    parse_numpy_words(numpy),
                    parse_numpy_position(numpy),
                    int(numpy["has_gauss"]),
                    float(numpy["cached"]),
                ),
                parse_torch_state(entries["torch"]),
                tuple(parse_torch_state(state) for state in entries["cuda"]),
                tuple(parse_torch_state(state) for state in entries.get("mps", ())),
            )
            random.Random().setstate(states.python)  # noqa: S311 - a trial, not a secret
            np.random.RandomState().set_state(states.numpy)
            torch.Generator().set_state(states.torch)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError):
            raise InputError("the states of the random generators are not valid") from None
        return states


def uses_cuda() -> bool:
    """Tell whether this process has used a GPU, without beginning to."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def words_to_hex(words: Sequence[int]) -> str:
    """Encode 32-bit words as hex."""
    return np.asarray(words, dtype="<u4").tobytes().hex()


def words_from_hex(text: str) -> list[int]:
    """Decode 32-bit words."""
    words: list[int] = np.frombuffer(bytes.fromhex(text), dtype="<u4").tolist()
    return words


NUMPY_WORDS = 624
"""Words of the Mersenne Twister, NumPy's global generator."""


def parse_numpy_words(entries: Mapping[str, Any]) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Parse NumPy's words."""
    words = words_from_hex(entries["words"])
    if len(words) != NUMPY_WORDS:
        raise ValueError
    return np.asarray(words, dtype=np.uint32)


def parse_numpy_position(entries: Mapping[str, Any]) -> int:
    """Parse the index of the next word: NumPy itself would accept any number and read out of bounds."""
    position = entries["position"]
    if type(position) is not int or not 0 <= position <= NUMPY_WORDS:
        raise ValueError
    return position


def parse_python_gauss(value: object) -> float | None:
    """Parse the second number of a Gaussian pair, if one is left."""
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError
    return value


def parse_torch_state(text: str) -> Tensor:
    """Parse the bytes of a torch generator."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
