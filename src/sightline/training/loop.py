"""The loop of every run: forward, loss, backward, clip, update; now and then a log line, a validation, a checkpoint.

It knows no task: the kind of a batch decides what is learned from it (`objective`). All that a later step depends on is
in the `TrainingState`, so a run that goes on from a checkpoint takes the same steps, to the last bit.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from sightline.text.batch import Batch
from sightline.text.feed import Feed
from sightline.training.checkpoint import save
from sightline.training.distributed import Rank
from sightline.training.objective import Loss, Objective
from sightline.training.randomness import RandomStates
from sightline.training.report import Reporter, Sample
from sightline.training.schedule import learning_rate
from sightline.training.settings import TrainingSettings
from sightline.training.signals import StopRequest
from sightline.training.snapshot import save_snapshot, snapshot_due
from sightline.training.state import Metric, Progress, TrainingState
from sightline.training.validation import Validation

Ending = Literal["steps", "epochs", "minutes", "patience", "signal"]
"""Why a run is over: a limit, no better score for a while, or somebody asked it to stop."""

CHECKPOINTS, SNAPSHOTS = "checkpoints", "snapshots"


@dataclass(frozen=True)
class Surroundings:
    """What the loop works with besides what it trains."""

    folder: Path
    """The run's: checkpoints and snapshots go there."""
    reporter: Reporter
    record: Callable[[Mapping[str, Metric], Sequence[Sample]], None]
    """Takes what is to be kept of a step, with the samples of a validation."""
    validate: Callable[[], Validation]
    keep: Callable[[Validation], None]
    """Called when the model is better than any before: it has the weights to be kept."""
    rank: Rank
    stop: StopRequest


def train(
    state: TrainingState, feed: Feed, objective: Objective, settings: TrainingSettings, around: Surroundings
) -> Ending:
    """Train until a limit is reached; the state says how far it has come already."""
    clock = Stopwatch(state.progress.seconds)
    epoch = feed.epoch(state.progress.epoch)
    around.reporter.begin(total_steps=settings.max_steps, step=state.progress.step)
    state.model.train()
    state.metrics["stopping"] = 0
    while (ending := reason_to_end(state, settings, around, n_batches=len(epoch))) is None:
        loss = learn(state, epoch[state.progress.position], objective, settings)
        note_loss(state, loss)
        state.progress = next_place(state.progress, n_batches=len(epoch))
        if state.progress.position == 0:
            epoch = feed.epoch(state.progress.epoch)
        if state.progress.accumulated == settings.accumulate:
            update(state, settings, around, clock)
            do_what_is_due(state, settings, around, clock, n_batches=len(epoch))
    state.progress = replace(state.progress, seconds=clock.now())
    if ending != "signal" and validated_step(state) != state.progress.step:
        validate(state, settings, around)
    checkpoint(state, settings, around)
    return ending


def learn(state: TrainingState, batch: Batch, objective: Objective, settings: TrainingSettings) -> Loss | None:
    """Add the gradients of one batch to those that wait; none where a process has no share of it."""
    if not len(batch):
        return None
    with computing_in(settings, state):
        loss = objective(state.model, batch)
    loss.total.backward()  # type: ignore[no-untyped-call]
    return loss


def update(state: TrainingState, settings: TrainingSettings, around: Surroundings, clock: "Stopwatch") -> None:
    """Change the weights by the mean gradient of all tokens since the last update, on all ranks alike."""
    step = state.progress.step + 1
    around.rank.sum_gradients(state.model.parameters())
    tokens, stops = around.rank.sum(number(state, "pending_tokens"), bool(around.stop))
    gradients = [parameter.grad for _, parameter in state.optimizer.named_parameters() if parameter.grad is not None]
    torch._foreach_div_(gradients, max(tokens, 1.0))
    rate = learning_rate(settings, step, d_model=state.model.config.d_model)
    done = state.optimizer.update(
        step, learning_rate=rate, clip_norm=settings.clip_norm, on_non_finite=settings.on_non_finite
    )
    state.optimizer.zero_grad()
    if state.average is not None:
        state.average.update(state.model, step)
    if done.problem:
        around.reporter.warn(done.problem)
    skipped = state.progress.skipped + bool(done.problem)
    state.progress = replace(state.progress, step=step, accumulated=0, skipped=skipped, seconds=clock.now())
    state.metrics.update(
        pending_tokens=0,
        tokens=number(state, "tokens") + tokens,
        learning_rate=rate,
        gradient_norm=done.gradient_norm,
        stopping=int(stops > 0),
    )


def do_what_is_due(
    state: TrainingState, settings: TrainingSettings, around: Surroundings, clock: "Stopwatch", *, n_batches: int
) -> None:
    """Log, validate, and save, if it is time; a model that is better than all before is saved at once."""
    step = state.progress.step
    speed = clock.speed(number(state, "tokens"))
    tokens = number(state, "window_tokens")
    around.reporter.tick(
        step,
        loss=number(state, "window_loss") / tokens if tokens else math.nan,
        tokens_per_second=speed,
        learning_rate=number(state, "learning_rate"),
    )
    if step % settings.log_every == 0:
        log(state, around, speed, n_batches=n_batches)
    if settings.snapshots and snapshot_due(step) and around.rank.is_main:
        save_snapshot(state.model, around.folder / SNAPSHOTS, step=step)
    improved = step % settings.validate_every == 0 and validate(state, settings, around)
    if improved or step % settings.checkpoint_every == 0:
        checkpoint(state, settings, around)


def log(state: TrainingState, around: Surroundings, speed: float, *, n_batches: int) -> None:
    """Write down the mean loss since the last time, and where the run is."""
    progress = state.progress
    total, tokens = around.rank.sum(number(state, "window_loss"), number(state, "window_tokens"))
    record: dict[str, Metric] = {
        "step": progress.step,
        "epoch": round(progress.epoch + progress.position / n_batches, 4),
        "loss": total / tokens if tokens else None,
        "learning_rate": state.metrics.get("learning_rate"),
        "gradient_norm": state.metrics.get("gradient_norm"),
        "skipped": progress.skipped,
        "tokens": int(number(state, "tokens")),
        "tokens_per_second": round(speed),
        "seconds": round(progress.seconds, 2),
    }
    state.metrics.update(window_loss=0.0, window_tokens=0)
    around.reporter.log(record)
    around.record(record, ())


def validate(state: TrainingState, settings: TrainingSettings, around: Surroundings) -> bool:
    """Validate with the averaged weights if there are any; keep the model and return True if it is the best so far.

    Random generators are put back, so that the run goes on as it would have without.
    """
    before = RandomStates.now()
    averaged = state.average.in_place_of(state.model) if state.average else nullcontext()
    with averaged:
        state.model.eval()
        found = around.validate()
        merit = found.merit(settings.best_by, step=state.progress.step)
        improved = all(map(math.isfinite, merit)) and (state.progress.best_step is None or merit > best_merit(state))
        if improved and around.rank.is_main:
            around.keep(found)
    state.model.train()
    before.apply()
    step = state.progress.step
    state.metrics.update(found.record(), validated_step=step)
    if improved:
        state.metrics.update(best_merit=merit[0], best_tie=merit[1], stale=0)
        state.progress = replace(state.progress, best_step=step)
    else:
        state.metrics["stale"] = int(number(state, "stale")) + 1
    record: dict[str, Metric] = {"step": step, **found.record(), "best_step": state.progress.best_step}
    around.reporter.validated(record, found.samples)
    around.record(record, found.samples)
    return improved


def validated_step(state: TrainingState) -> int:
    """Return the step of the last validation, 0 before the first."""
    return int(number(state, "validated_step"))


def best_merit(state: TrainingState) -> tuple[float, float]:
    """Return the merit of the best model so far."""
    return number(state, "best_merit"), number(state, "best_tie")


def checkpoint(state: TrainingState, settings: TrainingSettings, around: Surroundings) -> None:
    """Save all that decides how the run goes on; the others wait for the one that writes."""
    if around.rank.is_main:
        save(state, around.folder / CHECKPOINTS, keep_last=settings.keep_last)
    around.rank.barrier()


def reason_to_end(
    state: TrainingState, settings: TrainingSettings, around: Surroundings, *, n_batches: int
) -> Ending | None:
    """Tell whether it is time to stop. Between batches of one update only a signal is a reason, and alone only.

    Several processes stop together: they have agreed on it at the last update.
    """
    progress = state.progress
    if bool(around.stop) if around.rank.world == 1 else bool(state.metrics.get("stopping")):
        return "signal"
    if progress.accumulated:
        return None
    epochs = progress.epoch + progress.position / n_batches
    minutes = settings.max_minutes and around.rank.sum(progress.seconds / 60)[0] / around.rank.world
    limits: dict[Ending, tuple[int | float | None, int | float | None]] = {
        "steps": (progress.step, settings.max_steps),
        "epochs": (epochs, settings.max_epochs),
        "minutes": (minutes, settings.max_minutes),
        "patience": (number(state, "stale"), settings.patience),
    }
    return next((name for name, (reached, limit) in limits.items() if limit and (reached or 0) >= limit), None)


def next_place(progress: Progress, *, n_batches: int) -> Progress:
    """Return where the run is after one more batch."""
    last = progress.position + 1 >= n_batches
    return replace(
        progress,
        accumulated=progress.accumulated + 1,
        epoch=progress.epoch + last,
        position=0 if last else progress.position + 1,
    )


def note_loss(state: TrainingState, loss: Loss | None) -> None:
    """Count a batch; a loss that is not a number is not added to the others, its update will be judged by itself."""
    if loss is None:
        return
    state.metrics["pending_tokens"] = int(number(state, "pending_tokens")) + loss.count
    total = float(loss.total.detach())
    if math.isfinite(total):
        state.metrics["window_loss"] = number(state, "window_loss") + total
        state.metrics["window_tokens"] = int(number(state, "window_tokens")) + loss.count


def number(state: TrainingState, name: str) -> int | float:
    """Return a metric that is a number, 0 before it was ever set."""
    value = state.metrics.get(name)
    return value if isinstance(value, int | float) else 0


def computing_in(settings: TrainingSettings, state: TrainingState) -> AbstractContextManager[object]:
    """Let matrix products be computed in the precision that the settings ask for."""
    if settings.precision == "float32":
        return nullcontext()
    return torch.autocast(next(state.model.parameters()).device.type, dtype=torch.bfloat16)


class Stopwatch:
    """The time a run has taken over all resumes, and its speed since it was last asked."""

    def __init__(self, seconds: float) -> None:
        self._before, self._start = seconds, time.monotonic()
        self._marks: list[tuple[float, int | float]] = []

    def now(self) -> float:
        """Return the seconds so far."""
        return self._before + time.monotonic() - self._start

    def speed(self, tokens: int | float) -> float:
        """Return tokens a second over the last updates."""
        self._marks = [*self._marks[-20:], (time.monotonic(), tokens)]
        (first, had), (last, have) = self._marks[0], self._marks[-1]
        return (have - had) / (last - first) if last > first else 0.0
