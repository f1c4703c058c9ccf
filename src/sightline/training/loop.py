"""The training loop: forward, loss, backward, clip, update; at intervals a log line, a validation, a checkpoint.

It knows no task: the type of a batch decides the loss (`objective`). Everything a later step depends on is in the
`TrainingState`, so a resumed run takes the same steps, to the last bit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch

from sightline.data.datasets.batch import Batch
from sightline.data.datasets.batch_source import BatchSource
from sightline.runtime import Products, StopRequest, multiply_by
from sightline.training.checkpoint import save_checkpoint, save_snapshot, snapshot_due
from sightline.training.distributed import Rank
from sightline.training.metrics import ValidationResult
from sightline.training.objective import Loss, Objective
from sightline.training.report import Reporter, Sample
from sightline.training.schedule import learning_rate
from sightline.training.settings import MAX_STEPS, TrainingSettings
from sightline.training.state import Metric, Progress, RandomStates, TrainingState
from sightline.training.time_budget import Stopwatch, TimeBudget

StopReason = Literal["steps", "epochs", "minutes", "patience", "signal"]
"""Why a run stopped: a limit, early stopping, or a signal."""

CHECKPOINTS, SNAPSHOTS = "checkpoints", "snapshots"


@dataclass(frozen=True)
class TrainerContext:
    """What the loop needs besides the training state."""

    folder: Path
    """Folder of the run, for checkpoints and snapshots."""
    reporter: Reporter
    write_metrics: Callable[[Mapping[str, Metric], Sequence[Sample]], None]
    """Stores the metrics of a step, with the samples of a validation."""
    validate: Callable[[], ValidationResult]
    save_best: Callable[[ValidationResult], None]
    """Called while the model holds the best weights so far."""
    rank: Rank
    stop: StopRequest
    budget: TimeBudget
    clock: Stopwatch
    products: Products = field(default_factory=Products)
    """How matrix products are computed."""


def train(
    state: TrainingState,
    batch_source: BatchSource,
    objective: Objective,
    settings: TrainingSettings,
    context: TrainerContext,
) -> StopReason:
    """Train from where the state is until a limit is reached; return which one."""
    clock = context.clock
    epoch = batch_source.epoch(state.progress.epoch)
    context.reporter.begin(total_steps=context.budget.total_steps(state.progress.step), step=state.progress.step)
    state.model.train()
    stopping = False
    while (stop_reason := find_stop_reason(state, settings, context, n_batches=len(epoch), stopping=stopping)) is None:
        batch = epoch[state.progress.position]
        loss = forward_backward(state, batch, objective, settings, context.products)
        accumulate_loss(state, loss)
        clock.count_batch(batch.n_tokens)
        state.progress = advance_progress(state.progress, n_batches=len(epoch))
        if state.progress.position == 0:
            epoch = batch_source.epoch(state.progress.epoch)
        if state.progress.accumulated == settings.gradient_accumulation:
            stopping = update(state, settings, context)
            on_step_end(state, settings, context, n_batches=len(epoch))
    state.progress = replace(state.progress, seconds=clock.elapsed())
    if stop_reason != "signal" and state.loop.validated_step != state.progress.step:
        validate(state, settings, context)
    checkpoint(state, settings, context)
    return stop_reason


def forward_backward(
    state: TrainingState, batch: Batch, objective: Objective, settings: TrainingSettings, products: Products
) -> Loss | None:
    """Add the gradients of one batch to the accumulated ones; return None if this rank has no rows of it."""
    if not len(batch):
        return None
    with autocast(settings, state), multiply_by(products):
        loss = objective(state.model, batch.to(state.device))
        loss.total.backward()  # type: ignore[no-untyped-call]
    return loss


def update(state: TrainingState, settings: TrainingSettings, context: TrainerContext) -> bool:
    """Update the weights with the mean gradient over all tokens since the last update, identically on all ranks.

    Return whether a rank was asked to stop: then all of them do.
    """
    step = state.progress.step + 1
    context.rank.sum_gradients(state.model.parameters())
    planned = context.budget.review(state.progress.step, context.clock) if context.rank.is_main else 0
    tokens, stops, total_steps, read = context.rank.sum(
        state.sums.pending_tokens, bool(context.stop), planned, context.clock.pending_tokens
    )
    context.clock.count_update(int(read))
    if total_steps:
        adopt_plan(state, context, int(total_steps))
    gradients = [parameter.grad for _, parameter in state.optimizer.named_parameters() if parameter.grad is not None]
    torch._foreach_div_(gradients, max(tokens, 1.0))
    rate = learning_rate(settings, context.budget.schedule_step(step), d_model=state.model.config.d_model)
    with multiply_by(context.products):
        result = state.optimizer.update(
            step, learning_rate=rate, grad_clip=settings.grad_clip, on_non_finite=settings.on_non_finite
        )
    state.optimizer.zero_grad()
    if state.ema is not None:
        state.ema.update(state.model, step)
    if result.problem:
        context.reporter.warn(result.problem)
    skipped = state.progress.skipped + bool(result.problem)
    state.progress = replace(state.progress, step=step, accumulated=0, skipped=skipped, seconds=context.clock.elapsed())
    state.loop = replace(state.loop, tokens=state.loop.tokens + int(tokens))
    state.sums = replace(state.sums, pending_tokens=0)
    state.metrics.update(learning_rate=rate, gradient_norm=result.gradient_norm)
    return stops > 0


def adopt_plan(state: TrainingState, context: TrainerContext, total_steps: int) -> None:
    """Change the last update, and tell; the main rank has decided so."""
    progress, before = state.progress, context.budget.total_steps(state.progress.step)
    context.budget.adopt(progress.step, progress.seconds, total_steps)
    adapted = "; the schedule is adapted" if context.budget.fits_schedule else ""
    context.reporter.info(f"step {progress.step:,}: the time allows {total_steps:,} updates, not {before:,}{adapted}")


def on_step_end(state: TrainingState, settings: TrainingSettings, context: TrainerContext, *, n_batches: int) -> None:
    """Log, validate, and checkpoint when due; an improved model is checkpointed at once."""
    step, clock = state.progress.step, context.clock
    speed = clock.tokens_per_second()
    tokens = state.sums.window_tokens
    context.reporter.tick(
        step,
        loss=state.sums.window_loss / tokens if tokens else math.nan,
        tokens_per_second=speed,
        learning_rate=float(state.metrics["learning_rate"] or 0.0),
        total_steps=context.budget.total_steps(step),
        seconds_left=context.budget.seconds_left(step, clock),
    )
    if step % settings.log_every == 0:
        log(state, context, speed, n_batches=n_batches)
    validation_due, checkpoint_due = step % settings.validate_every == 0, step % settings.checkpoint_every == 0
    with clock.pause(validation=validation_due):
        if settings.snapshots and snapshot_due(step) and context.rank.is_main:
            save_snapshot(state.model, context.folder / SNAPSHOTS, step=step)
        improved = validation_due and validate(state, settings, context)
        if improved or checkpoint_due:
            checkpoint(state, settings, context)


def log(state: TrainingState, context: TrainerContext, speed: float, *, n_batches: int) -> None:
    """Log the mean loss since the last log line, and the progress."""
    progress = state.progress
    total, tokens = context.rank.sum(state.sums.window_loss, state.sums.window_tokens)
    record: dict[str, Metric] = {
        "step": progress.step,
        "epoch": round(progress.epoch + progress.position / n_batches, 4),
        "loss": total / tokens if tokens else None,
        "learning_rate": state.metrics["learning_rate"],
        "gradient_norm": state.metrics["gradient_norm"],
        "skipped": progress.skipped,
        "tokens": state.loop.tokens,
        "tokens_per_second": round(speed),
        "seconds": round(progress.seconds, 2),
    }
    state.sums = replace(state.sums, window_loss=0.0, window_tokens=0)
    context.reporter.log(record)
    context.write_metrics(record, ())


def validate(state: TrainingState, settings: TrainingSettings, context: TrainerContext) -> bool:
    """Validate, with the EMA weights if there are any; save the model and return True if it is the best so far.

    Random generators are restored, so that validating does not change the run.
    """
    before = RandomStates.capture()
    averaged = state.ema.swap_into(state.model) if state.ema else nullcontext()
    with averaged:
        state.model.eval()
        result = context.validate()
        selection_key = result.selection_key(settings.best_metric, step=state.progress.step)
        improved = all(map(math.isfinite, selection_key)) and (
            state.loop.best_selection_key is None or selection_key > state.loop.best_selection_key
        )
        if improved and context.rank.is_main:
            context.save_best(result)
    state.model.train()
    before.restore()
    step = state.progress.step
    state.metrics.update(result.to_record())
    if improved:
        state.progress = replace(state.progress, best_step=step)
    state.loop = replace(
        state.loop,
        validated_step=step,
        best_selection_key=selection_key if improved else state.loop.best_selection_key,
        validations_without_improvement=0 if improved else state.loop.validations_without_improvement + 1,
    )
    record: dict[str, Metric] = {"step": step, **result.to_record(), "best_step": state.progress.best_step}
    context.reporter.log_validation(record, result.samples)
    context.write_metrics(record, result.samples)
    return improved


def checkpoint(state: TrainingState, settings: TrainingSettings, context: TrainerContext) -> None:
    """Save everything needed to resume; the other ranks wait for the main one."""
    save_checkpoint(state, context.folder / CHECKPOINTS, keep_checkpoints=settings.keep_checkpoints, rank=context.rank)
    context.rank.barrier()


def find_stop_reason(
    state: TrainingState, settings: TrainingSettings, context: TrainerContext, *, n_batches: int, stopping: bool
) -> StopReason | None:
    """Return why to stop now, or None. Between the batches of one update only a signal stops a single process.

    Several ranks stop together: `stopping` is what they agreed on at the last update.
    """
    progress, budget = state.progress, context.budget
    if bool(context.stop) if context.rank.world_size == 1 else stopping:
        return "signal"
    if progress.accumulated:
        return None
    epochs = progress.epoch + progress.position / n_batches
    minutes = settings.max_minutes and context.rank.sum(progress.seconds / 60)[0] / context.rank.world_size
    limits: dict[StopReason, tuple[int | float | None, int | float | None]] = {
        "steps": (progress.step, settings.max_steps if budget.limit is None else budget.max_total),
        "epochs": (epochs, settings.max_epochs),
        "minutes": (minutes, settings.max_minutes),
        "patience": (state.loop.validations_without_improvement, settings.patience),
    }
    if budget.limit is not None and progress.step >= (budget.total_steps(progress.step) or MAX_STEPS):
        limits["minutes"] = (1, 1)  # as many updates as the time allows
    return next((name for name, (reached, limit) in limits.items() if limit and (reached or 0) >= limit), None)


def advance_progress(progress: Progress, *, n_batches: int) -> Progress:
    """Return the progress after one more batch."""
    last = progress.position + 1 >= n_batches
    return replace(
        progress,
        accumulated=progress.accumulated + 1,
        epoch=progress.epoch + last,
        position=0 if last else progress.position + 1,
    )


def accumulate_loss(state: TrainingState, loss: Loss | None) -> None:
    """Add a batch to the running sums; a non-finite loss is left out, the optimizer will handle its update."""
    if loss is None:
        return
    sums = replace(state.sums, pending_tokens=state.sums.pending_tokens + loss.count)
    total = float(loss.total.detach())
    if math.isfinite(total):
        sums = replace(sums, window_loss=sums.window_loss + total, window_tokens=sums.window_tokens + loss.count)
    state.sums = sums


def autocast(settings: TrainingSettings, state: TrainingState) -> AbstractContextManager[object]:
    """Compute in 16 bits where the settings ask for it; `auto` chooses product by product (`Products`)."""
    if settings.precision != "bfloat16":
        return nullcontext()
    return torch.autocast(state.device.type, dtype=torch.bfloat16)
