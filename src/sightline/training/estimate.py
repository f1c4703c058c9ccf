"""Try a run before it begins: its memory and time, and whether the model can overfit one small batch."""

import copy
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from sightline.data.datasets.batch import Batch
from sightline.model.interfaces import Model
from sightline.training.optimizer import Optimizer
from sightline.training.report import format_duration
from sightline.training.state import RandomStates

BatchLoss = Callable[[Model, Batch], Tensor]


@dataclass(frozen=True)
class Estimate:
    """Estimated size, memory and time of a run."""

    parameters: int
    memory_bytes: int | None
    """Peak of the whole process, without GPU memory; None if the system does not tell."""
    seconds_per_update: float | int
    """Without validations and checkpoints."""
    tokens_per_second: float | int
    """Counting both sides of a pair, and padding."""

    def describe(self, n_updates: int | None = None, *, max_seconds: float | None = None) -> str:
        """Return for example "1.6 M parameters, about 310 MB of memory, about 2 min 40 s".

        The time is that of the updates, if their number is known, or the time that is left to the run.
        """
        parts = [f"{format_count(self.parameters)} parameters"]
        if self.memory_bytes is not None:
            parts.append(f"about {format_bytes(self.memory_bytes)} of memory")
        if max_seconds is not None and n_updates is not None:
            parts.append(f"about {n_updates:,} updates in at most {format_duration(max_seconds)}")
        elif n_updates is not None:
            parts.append(f"about {format_duration(n_updates * self.seconds_per_update)}")
        return ", ".join(parts)


def estimate(
    model: Model,
    batches: Sequence[Batch],
    loss: BatchLoss,
    *,
    gradient_accumulation: int,
    optimizer: Optimizer,
) -> Estimate:
    """Try batches, the largest one last, and an update; `loss` is that of the run.

    1  the largest batch, forward and backward, and an update with zero gradients at a learning rate of zero
    2  the largest batch again, now that the optimizer has its state: the peak is what the run needs
    3  typical batches and an update, each timed

    Weights, accumulated gradients, optimizer state and random generators are restored to the last bit: a run is the
    same with and without the trial.

    memory   = peak of the process, or of its GPU, during the trial, with weights, activations, gradients and optimizer
               state as in the run, and whatever else the process holds by now
             − what a resumed run has set aside for the trial: gradients and optimizer state
    seconds  = gradient_accumulation · mean time of the typical batches + time of an update
    """
    typical, device = batches[:-1] or batches, next(model.parameters()).device
    with preserve_state(model, optimizer) as set_aside:
        reset_peak_memory(device)
        for _ in range(2):  # the second time there is optimizer state too
            if gradient_accumulation == 1:
                optimizer.zero_grad()
            forward_backward(model, batches[-1], loss)
            zero_update(optimizer)
        peak = peak_memory(device)
        batch_seconds = [time_call(partial(forward_backward, model, batch, loss), device) for batch in typical]
        update_seconds = time_call(partial(zero_update, optimizer), device)
    parameters = list(model.parameters())
    one_update = gradient_accumulation * statistics.mean(batch_seconds) + update_seconds
    return Estimate(
        parameters=sum(parameter.numel() for parameter in parameters),
        memory_bytes=None if peak is None else peak - set_aside,
        seconds_per_update=one_update,
        tokens_per_second=gradient_accumulation * statistics.mean(batch.n_ids for batch in typical) / one_update,
    )


@contextmanager
def preserve_state(model: nn.Module | Model, optimizer: Optimizer) -> Iterator[int]:
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


MAX_TIMING_SECONDS, MAX_TIMING_REPEATS = 0.5, 5
"""Limits of one timing; it is repeated at least once."""


def time_call(work: Callable[[], None], device: torch.device) -> float:
    """Return the median time of a call, until the device has done its work, after one that does not count."""
    work()
    synchronize(device)
    times: list[float] = []
    while len(times) < MAX_TIMING_REPEATS and sum(times) < MAX_TIMING_SECONDS:
        start = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done what it was asked for; a CPU has."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


PROC_STATUS, PROC_CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak on Linux and CUDA: reading the data may have needed more than training will."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        PROC_CLEAR_REFS.write_text("5")


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory of this process: on Linux since `reset_peak_memory`, elsewhere since its start.

    On a GPU it is the GPU's own memory that may run out.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()  # which keeps what it once needed
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in PROC_STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
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


PASS_RATIO = 0.1
"""Share of the initial loss below which the check passes. Over the three families, 8 to 256 wide, 1 to 6 layers in each
stack, sound models reached 0.07 or less in 60 updates at a good learning rate, and stayed above 0.15 at one far off."""

STUCK_RATIO = 0.9
"""Share of the initial loss above which next to nothing was learned."""


@dataclass(frozen=True)
class OverfitCheck:
    """The loss before and after training on one batch."""

    initial_loss: float
    final_loss: float
    passed: bool

    def describe(self) -> str:
        """Return the result in a sentence, with the likely cause of a failure."""
        change = f"the loss on one small batch went from {self.initial_loss:.3f} to {self.final_loss:.3f}"
        if self.passed:
            return f"passed, the model can overfit a batch: {change}"
        return f"failed, the model cannot overfit a batch: {change}; {self._likely_cause()}"

    def _likely_cause(self) -> str:
        if not math.isfinite(self.initial_loss):
            return "it is not finite from the start: look for NaN in the weights and for empty sequences"
        if not math.isfinite(self.final_loss):
            return "it diverged: activations grow too large; set model.pre_norm=true"
        if self.final_loss > STUCK_RATIO * self.initial_loss:
            return (
                "it hardly moved: the weights are frozen, the loss does not depend on them, "
                "or the targets do not depend on the inputs"
            )
        return (
            "a sound model gets below a tenth: this one may be too small, "
            "or the same input occurs with different targets"
        )


RATES_TIMES_WIDTH = (0.25, 0.1)
"""Learning rates tried, times d_model: wider models need lower ones. Deep post-norm stacks need the second."""


def run_overfit_check(
    model: Model,
    batch: Batch,
    loss: BatchLoss,
    *,
    steps: int = 60,
    learning_rate: float | None = None,
) -> OverfitCheck:
    """Overfit a copy of the model on one batch, without dropout; `loss` is a mean, without label smoothing.

    A model that cannot is broken: a loss without gradients, targets that do not belong to their sources, too small a
    size. A model that can may still fail to generalize.

    The model itself and the random generators are unchanged, to the last bit.
    """
    generators = RandomStates.capture()
    default_rates = [product / model.config.d_model for product in RATES_TIMES_WIDTH]
    results: list[OverfitCheck] = []
    try:
        for rate in default_rates if learning_rate is None else [learning_rate]:
            trial = copy.deepcopy(model).eval()
            results.append(overfit(trial, partial(loss, trial, batch), steps=steps, learning_rate=rate))
            if results[-1].passed:
                break
    finally:
        generators.restore()
    return min(results, key=lambda check: check.final_loss if math.isfinite(check.final_loss) else math.inf)


WARMUP_STEPS, GRAD_CLIP = 20, 1.0


def overfit(model: nn.Module | Model, loss: Callable[[], Tensor], *, steps: int, learning_rate: float) -> OverfitCheck:
    """Train until the loss is low enough, all steps are done, or the loss is not finite."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98)) if parameters else None
    now = loss()
    first = last = float(now.detach())
    for step in range(1, steps + 1):
        if optimizer is None or not now.requires_grad or not math.isfinite(last) or last < PASS_RATIO * first:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, step / WARMUP_STEPS)
        optimizer.zero_grad()
        now.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, GRAD_CLIP)
        optimizer.step()
        now = loss()
        last = float(now.detach())
    return OverfitCheck(first, last, passed=last < PASS_RATIO * first)
