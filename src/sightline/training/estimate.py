"""What a run will take: parameters, memory, time. Measured by a trial, of which nothing remains.

    1  the largest batch, forward and backward, and an update by gradients of zero at a learning rate of zero
    2  the largest batch again, now that all there will ever be is in memory: the peak is what the run needs
    3  typical batches, and an update, each timed

Weights, gradients that wait for an update, what the optimiser remembers, and every random generator are afterwards as
they were, to the last bit: a run is the same with and without the trial.
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
from sightline.training.optimizer import Optimizer
from sightline.training.randomness import RandomStates
from sightline.training.wording import duration

BatchLoss = Callable[[Model, Batch], Tensor]

ENOUGH_SECONDS, MOST_REPEATS = 0.5, 5
"""How long, and how often, one thing is timed at most; at least once."""

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    parameters: int
    memory_bytes: int | None
    """Of the whole process at its peak; None where the system does not tell. A graphics card's own is not counted."""
    seconds: float | int | None
    """All updates, without validations and checkpoints; None where it is not known how many they are."""
    tokens_per_second: float | int
    """Tokens of a batch, both sides of a pair and padding counted."""

    def sentence(self) -> str:
        """Return for example "1.6 M parameters, about 310 MB of memory, about 2 min 40 s"."""
        parts = [f"{short_number(self.parameters)} parameters"]
        if self.memory_bytes is not None:
            parts.append(f"about {short_size(self.memory_bytes)} of memory")
        if self.seconds is not None:
            parts.append(f"about {duration(self.seconds)}")
        return ", ".join(parts)


def estimate(
    model: Model,
    batches: Sequence[Batch],
    loss: BatchLoss,
    *,
    n_updates: int | None,
    accumulate: int,
    optimizer: Optimizer,
) -> Estimate:
    """Try batches, the largest one last, and the update that follows `accumulate` of them; `loss` as the run has it.

    memory   = peak of the process during the trial, in which weights, activations, gradients and all that the optimiser
               remembers are there at once as they will be in the run, and whatever else the process holds by now
             − what a resumed run has set aside for the trial: gradients, and what its optimiser remembered
    seconds  = n_updates · (accumulate · mean time of the typical batches + time of an update)
    """
    typical = batches[:-1] or batches
    with nothing_changed(model, optimizer) as set_aside:
        forget_peak()
        for _ in range(2):  # the second time the optimiser remembers, too
            if accumulate == 1:
                optimizer.zero_grad()
            learn(model, batches[-1], loss)
            still_update(optimizer)
        peak = peak_memory()
        batch_seconds = [seconds_of(partial(learn, model, batch, loss)) for batch in typical]
        update_seconds = seconds_of(partial(still_update, optimizer))
    parameters = list(model.parameters())
    one_update = accumulate * statistics.mean(batch_seconds) + update_seconds
    return Estimate(
        parameters=sum(parameter.numel() for parameter in parameters),
        memory_bytes=None if peak is None else peak - set_aside,
        seconds=None if n_updates is None else n_updates * one_update,
        tokens_per_second=accumulate * statistics.mean(batch.n_ids for batch in typical) / one_update,
    )


@contextmanager
def nothing_changed(model: nn.Module, optimizer: Optimizer) -> Iterator[int]:
    """Put back all that a trial touches: generators, modes, gradients, what the optimiser remembers, its rates.

    Yields how many bytes of memory are set aside meanwhile.
    """
    generators, modes = RandomStates.now(), [(module, module.training) for module in model.modules()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    memories = [(part, part.state, [group["lr"] for group in part.param_groups]) for part in optimizer.parts]
    remembered = [value for _, state, _ in memories for entries in state.values() for value in entries.values()]
    aside = [tensor for tensor in (*remembered, *(gradient for _, gradient in gradients)) if tensor is not None]
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
        for part, state, rates in memories:
            part.state = state
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate
        generators.apply()


def learn(model: Model, batch: Batch, loss: BatchLoss) -> None:
    """Go forward and backward."""
    loss(model, batch).backward()  # type: ignore[no-untyped-call]


def still_update(optimizer: Optimizer) -> None:
    """Do all the work of an update that changes no weight: neither gradient nor learning rate is other than zero."""
    for _, parameter in optimizer.named_parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    optimizer.update(1, learning_rate=0.0)


def seconds_of(work: Callable[[], None]) -> float:
    """Return how long something usually takes, once it has been done before."""
    work()
    times: list[float] = []
    while len(times) < MOST_REPEATS and sum(times) < ENOUGH_SECONDS:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def forget_peak() -> None:
    """Let Linux count the peak from now on: reading the data may have needed more than training will."""
    with suppress(OSError):
        CLEAR_REFS.write_text("5")


def peak_memory() -> int | None:
    """Return the largest size of this process in memory: on Linux since `forget_peak`, elsewhere ever."""
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def short_number(count: int) -> str:
    """Return for example "1.6 M"."""
    for size, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {name}" if count < 100 * size else f"{count / size:.0f} {name}"
    return str(count)


def short_size(n_bytes: int) -> str:
    """Return for example "310 MB"."""
    return f"{n_bytes / 10**9:.1f} GB" if n_bytes >= 10**9 else f"{max(1, round(n_bytes / 10**6))} MB"
