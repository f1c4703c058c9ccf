"""Averages of weights: an exponential moving average during training, and the mean of several checkpoints (6.1)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch import Tensor, nn

from sightline.bundle.weights import check_tensors
from sightline.errors import InputError
from sightline.training.tensor_file import TensorFile, open_tensor_file


class ExponentialMovingAverage:
    """An exponential moving average (EMA) of a model's weights, in 32-bit floats, tied weights once."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self.weights = {name: parameter.detach().float().clone() for name, parameter in model.named_parameters()}

    def update(self, model: nn.Module, step: int) -> None:
        """Add the weights after update number `step`."""
        rate = 1 - effective_decay(step, max_decay=self.decay)
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter.detach().float(), rate)

    @contextmanager
    def swap_into(self, model: nn.Module) -> Iterator[None]:
        """Swap the averaged weights into the model; its own come back unchanged at the end.

        Do not train meanwhile: the update would go into the average.
        """
        own = {name: parameter.data for name, parameter in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.weights[name].to(parameter.dtype)
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]


def effective_decay(step: int, *, max_decay: float) -> float:
    """Return the decay at a step: low at first, so that the random initial weights are forgotten."""
    return min(max_decay, (1 + step) / (10 + step))


def average_files(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several safetensors files of one model.

    Files are read tensor by tensor: memory holds the result and one tensor.
    """
    if not paths:
        raise InputError("no checkpoints to average")
    with ExitStack() as stack:
        files = [stack.enter_context(open_tensor_file(path)) for path in paths]
        shapes = {name: stored.shape for name, stored in files[0].header.tensors.items()}
        for file in files[1:]:
            check_tensors(file.header, shapes, file.path, against=str(paths[0]))
        return {name: average_tensor(name, files) for name in shapes}


def average_tensor(name: str, files: Sequence[TensorFile]) -> Tensor:
    """Return the mean of one tensor over all files, summed in 64 bits, with the dtype of the first."""
    first = files[0].read(name)
    total = first.double()
    for file in files[1:]:
        total += file.read(name)
    return total.div_(len(files)).to(first.dtype)
