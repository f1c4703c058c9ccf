"""Estimate the memory and time of a run by a trial, which leaves no trace.

    1  the largest batch, forward and backward, and an update with zero gradients at a learning rate of zero
    2  the largest batch again, now that the optimizer has its state: the peak is what the run needs
    3  typical batches and an update, each timed

Weights, accumulated gradients, optimizer state and random generators are restored to the last bit: a run is the same
with and without the trial.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from sightline.model.registry import Model
from sightline.text.batch import Batch
from sightline.training.formatting import format_duration
from sightline.training.optimizer import Optimizer
from sightline.training.randomness import RandomStates

BatchLoss = Callable[[Model, Batch], Tensor]

MAX_SECONDS, MAX_REPEATS = 0.5, 5
"""Limits of one timing; it is repeated at least once."""

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Estimate:
    """Estimated size, memory and time of a run."""

    parameters: int
    memory_bytes: int | None
    """Peak of the whole process, without GPU memory; None if the system does not tell."""
    seconds: float | int | None
    """All updates, without validations and checkpoints; None if their number is not known."""
    tokens_per_second: float | int
    """Counting both sides of a pair, and padding."""

    def describe(self) -> str:
        """Return for example "1.6 M parameters, about 310 MB of memory, about 2 min 40 s"."""
        parts = [f"{format_count(self.parameters)} parameters"]
        if self.memory_bytes is not None:
            parts.append(f"about {format_bytes(self.memory_bytes)} of memory")
        if self.seconds is not None:
            parts.append(f"about {format_duration(self.seconds)}")
        return ", ".join(parts)


def estimate(
    model: Model,
    batches: Sequence[Batch],
    loss: BatchLoss,
    *,
    n_updates: int | None,
    gradient_accumulation: int,
    optimizer: Optimizer,
) -> Estimate:
    """Try batches, the largest one last, and an update; `loss` is that of the run.

    memory   = peak of the process during the trial, with weights, activations, gradients and optimizer state as in the
               run, and whatever else the process holds by now
             − what a resumed run has set aside for the trial: gradients and optimizer state
    seconds  = n_updates · (gradient_accumulation · mean time of the typical batches + time of an update)
    """
    typical = batches[:-1] or batches
    with preserve_state(model, optimizer) as set_aside:
        reset_peak_memory()
        for _ in range(2):  # the second time there is optimizer state too
            if gradient_accumulation == 1:
                optimizer.zero_grad()
            forward_backward(model, batches[-1], loss)
            zero_update(optimizer)
        peak = peak_memory()
        batch_seconds = [time_call(partial(forward_backward, model, batch, loss)) for batch in typical]
        update_seconds = time_call(partial(zero_update, optimizer))
    parameters = list(model.parameters())
    one_update = gradient_accumulation * statistics.mean(batch_seconds) + update_seconds
    return Estimate(
        parameters=sum(parameter.numel() for parameter in parameters),
        memory_bytes=None if peak is None else peak - set_aside,
        seconds=None if n_updates is None else n_updates * one_update,
        tokens_per_second=gradient_accumulation * statistics.mean(batch.n_ids for batch in typical) / one_update,
    )


@contextmanager
def preserve_state(model: nn.Module, optimizer: Optimizer) -> Iterator[int]:
    """Restore everything a trial touches: generators, modes, gradients, optimizer state, learning rates.

    Yields the bytes of memory set aside meanwhile.
    """
    generators, modes = RandomStates.capture(), [(module, module.training) for module in model.modules()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    states = [(part, part.state, [group["lr"] for group in part.param_groups]) for part in optimizer.parts]
    optimizer_state = [value for _, state, _ in states for entries in state.values() for value in entries.values()]
    aside = [tensor for tensor in (*optimizer_state, *(gradient for _, gradient in gradients)) if tensor is not None]
    try:
        model.train()
        for parameter, _ in gradients:
            parameter.grad = None
        for part in optimizer.parts:
            part.state = defaultdict(dict)
        yield sum(tensor.nbytes for tensor in aside)
    finally:
        for module, training in modes:
            module.training = training
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for part, state, rates in states:
            part.state = state
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate
        generators.restore()


def forward_backward(model: Model, batch: Batch, loss: BatchLoss) -> None:
    """Run a forward and backward pass."""
    loss(model, batch).backward()  # type: ignore[no-untyped-call]


def zero_update(optimizer: Optimizer) -> None:
    """Do all the work of an update without changing a weight: gradients and learning rate are zero."""
    for _, parameter in optimizer.named_parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    optimizer.update(1, learning_rate=0.0)


def time_call(work: Callable[[], None]) -> float:
    """Return the median time of a call, after one that does not count."""
    work()
    times: list[float] = []
    while len(times) < MAX_REPEATS and sum(times) < MAX_SECONDS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def reset_peak_memory() -> None:
    """Reset the peak on Linux: reading the data may have needed more than training will."""
    with suppress(OSError):
        CLEAR_REFS.write_text("5")


def peak_memory() -> int | None:
    """Return the peak memory of this process: on Linux since `reset_peak_memory`, elsewhere since its start."""
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # not Unix
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def format_count(count: int) -> str:
    """Return for example "1.6 M"."""
    for size, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {name}" if count < 100 * size else f"{count / size:.0f} {name}"
    return str(count)


def format_bytes(n_bytes: int) -> str:
    """Return for example "310 MB"."""
    return f"{n_bytes / 10**9:.1f} GB" if n_bytes >= 10**9 else f"{max(1, round(n_bytes / 10**6))} MB"
