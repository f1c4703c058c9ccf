"""Averages of weights: a running one while a model is trained, and the mean of several checkpoints afterwards (6.1)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch import Tensor, nn

from sightline.bundle.weights import check_tensors
from sightline.errors import InputError
from sightline.training.tensor_file import TensorFile, opened_tensors


class RunningAverage:
    """An exponential moving average of a model's weights, in 32-bit floats, tied weights once."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.weights = {name: parameter.detach().float().clone() for name, parameter in model.named_parameters()}

    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after update number `step`."""
        share = 1 - decay_at(step, highest=self.decay)
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter.detach().float(), share)

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Let the model have the averaged weights for a while; its own are set aside and come back untouched.

        Not to be trained meanwhile: the update would go into the average.
        """
        own = {name: parameter.data for name, parameter in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.weights[name].to(parameter.dtype)
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]


def decay_at(step: int, *, highest: float) -> float:
    """Return how much of the average an update keeps: little at first, so that the random beginning is forgotten."""
    return min(highest, (1 + step) / (10 + step))


def mean_of_files(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several safetensors files, all of one model.

    They are read side by side, tensor by tensor: in memory are the result and the tensor at hand.
    """
    if not paths:
        raise InputError("there is nothing to average: no checkpoints were given")
    with ExitStack() as stack:
        files = [stack.enter_context(opened_tensors(path)) for path in paths]
        shapes = {name: stored.shape for name, stored in files[0].header.tensors.items()}
        for file in files[1:]:
            check_tensors(file.header, shapes, file.path, against=str(paths[0]))
        return {name: mean_of(name, files) for name in shapes}


def mean_of(name: str, files: Sequence[TensorFile]) -> Tensor:
    """Return the mean of one tensor of every file, summed in 64 bits and of the type it has in the first."""
    first = files[0].read(name)
    total = first.double()
    for file in files[1:]:
        total += file.read(name)
    return total.div_(len(files)).to(first.dtype)
