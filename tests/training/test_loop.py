"""The loop: what it does when, and that a run stopped anywhere continues as if it had not been (T4)."""

import dataclasses
import hashlib
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sightline.runtime import StopRequest
from sightline.training import loop
from sightline.training.checkpoint import STATE, SUMS, list_checkpoints, parse_step, resume, save_checkpoint
from sightline.training.distributed import Rank
from sightline.training.loop import CHECKPOINTS, SNAPSHOTS, TrainerContext, train
from sightline.training.metrics import METRICS, MetricsFile, ValidationResult, read_metrics
from sightline.training.objective import Objective
from sightline.training.optimizer import ExponentialMovingAverage, make_optimizer
from sightline.training.report import SilentReporter
from sightline.training.settings import TrainingSettings
from sightline.training.state import Progress, TrainingState
from sightline.training.time_budget import Stopwatch, TimeBudget

from .examples import TASKS, batch_source_of, model_for
from .toy import fingerprint

SETTINGS = TrainingSettings(
    optimizer="adamw",
    schedule="cosine",
    learning_rate=0.01,
    warmup_steps=3,
    weight_decay=0.1,
    label_smoothing=0.1,
    gradient_accumulation=3,
    grad_clip=1.0,
    ema_decay=0.9,
    max_steps=12,
    validate_every=5,
    checkpoint_every=4,
    log_every=2,
    seed=5,
)


class StopAfter(StopRequest):
    """Requests a stop once it was checked so many times: mostly in the middle of an accumulation."""

    def __init__(self, checks: int) -> None:
        super().__init__()
        self.checks = checks

    def __bool__(self) -> bool:
        self.checks -= 1
        if self.checks < 0:
            self.signal = signal.SIGTERM
        return super().__bool__()


def new_state(task: str, settings: TrainingSettings = SETTINGS) -> TrainingState:
    model = model_for(task, dropout=0.1)
    torch.manual_seed(settings.seed)
    ema = ExponentialMovingAverage(model, decay=settings.ema_decay) if settings.ema_decay else None
    return TrainingState(model, make_optimizer(model, settings), ema, Progress(seed=settings.seed))


def make_context(folder, *, stop=None, losses=None, kept=None, rank=None, budget=None, clock=None) -> TrainerContext:
    """Validations draw random numbers, which must change nothing."""
    metrics = MetricsFile(folder / METRICS)

    def validate() -> ValidationResult:
        torch.rand(3)
        return ValidationResult(next(losses) if losses else 1.0, ("bleu", 0.0), True)

    return TrainerContext(
        folder,
        SilentReporter(),
        lambda record, samples: metrics.append(record),
        validate,
        (lambda found: kept.append(found)) if kept is not None else (lambda found: None),
        rank or Rank(),
        StopRequest() if stop is None else stop,
        budget or TimeBudget(SETTINGS),
        clock or Stopwatch(),
    )


def run(folder, task, settings=SETTINGS, *, stop_after=None, objective=None, **options):
    """Train from the last checkpoint of the folder, if there is one, as a run does."""
    folder.mkdir(exist_ok=True)
    state = new_state(task, settings)
    found = resume(state, folder / CHECKPOINTS)
    MetricsFile(folder / METRICS).truncate(state.progress.step if found else -1, validated=state.loop.validated_step)
    stop = None if stop_after is None else StopAfter(stop_after)
    objective = objective or Objective(0.1, r_drop=settings.r_drop)
    options.setdefault("budget", TimeBudget(settings))
    stop_reason = train(state, batch_source_of(task), objective, settings, make_context(folder, stop=stop, **options))
    return state, stop_reason


def lasting(state) -> dict[str, str]:
    """Return everything about a state but the time it took."""
    timeless = dataclasses.replace(state, progress=replace(state.progress, seconds=0.0))
    return fingerprint(timeless)


def timeless(records) -> list[dict]:
    return [{k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")} for r in records]


@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_is_stopped_again_and_again_equals_one_that_is_not(task, tmp_path):
    whole, stop_reason = run(tmp_path / "whole", task)
    assert stop_reason == "steps"
    parts = tmp_path / "parts"
    for checks in (1, 4, 8, 2, 11):  # after so many batches each time: between updates, and within them
        _, stop_reason = run(parts, task, stop_after=checks)
        assert stop_reason == "signal"
    again, stop_reason = run(parts, task)
    assert stop_reason == "steps"
    assert lasting(again) == lasting(whole)
    assert timeless(read_metrics(parts / METRICS)) == timeless(read_metrics(tmp_path / "whole" / METRICS))


class Killed(BaseException):
    """What comes instead of a save: nothing in the loop can catch it."""


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_run_that_is_killed_before_any_save_ends_as_one_that_is_not(nth, tmp_path, monkeypatch):
    settings = replace(SETTINGS, max_steps=4, validate_every=3, checkpoint_every=1, log_every=1)
    whole, _ = run(tmp_path / "whole", "pairs", settings)
    saves = iter(range(1, 100))

    def save_or_die(state, folder, **options):
        if next(saves) == nth:
            raise Killed
        return save_checkpoint(state, folder, **options)

    monkeypatch.setattr(loop, "save_checkpoint", save_or_die)
    with pytest.raises(Killed):
        run(tmp_path / "killed", "pairs", settings)
    again, _ = run(tmp_path / "killed", "pairs", settings)
    assert lasting(again) == lasting(whole)
    assert timeless(read_metrics(tmp_path / "killed" / METRICS)) == timeless(read_metrics(tmp_path / "whole" / METRICS))


def rewrite_as_format_2(path: Path) -> None:
    """Write the state of a checkpoint as it was in format 2, with the state of the loop among the metrics."""
    entries = json.loads((path / STATE).read_text(encoding="utf-8"))
    loop = entries.pop("loop")
    key = loop.pop("best_selection_key")
    best = {} if key is None else {"best_selection_key": key[0], "best_tie_break": key[1]}
    (rank,) = entries.pop("ranks")
    entries["metrics"] |= {"stopping": 1, **loop, "tokens": float(loop["tokens"]), **rank["sums"], **best}
    entries["random"] = rank["random"]
    (path / STATE).write_text(json.dumps({**entries, "format": 2}), encoding="utf-8")
    lines = (path / SUMS).read_text(encoding="ascii").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    sums[STATE] = hashlib.sha256((path / STATE).read_bytes()).hexdigest()
    (path / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()), encoding="ascii")


@pytest.mark.parametrize("stop_after", [2, 7, 17, 33])  # before the first validation and after each
def test_a_checkpoint_of_format_2_resumes_as_if_the_run_had_not_been_stopped(stop_after, tmp_path):
    settings = replace(SETTINGS, validate_every=4, best_metric="loss")
    whole, _ = run(tmp_path / "whole", "pairs", settings)
    stopped, _ = run(tmp_path / "parts", "pairs", settings, stop_after=stop_after)
    rewrite_as_format_2(list_checkpoints(tmp_path / "parts" / CHECKPOINTS)[-1])
    again = new_state("pairs", settings)
    assert resume(again, tmp_path / "parts" / CHECKPOINTS).notes == ()
    assert fingerprint(again) == fingerprint(stopped)
    again, stop_reason = run(tmp_path / "parts", "pairs", settings)
    assert stop_reason == "steps"
    assert lasting(again) == lasting(whole)
    assert timeless(read_metrics(tmp_path / "parts" / METRICS)) == timeless(read_metrics(tmp_path / "whole" / METRICS))


def test_a_stopped_run_with_r_drop_equals_one_that_is_not(tmp_path):
    settings = replace(SETTINGS, r_drop=2.0, max_steps=5)
    whole, _ = run(tmp_path / "whole", "pairs", settings)
    run(tmp_path / "parts", "pairs", settings, stop_after=7)
    again, _ = run(tmp_path / "parts", "pairs", settings)
    assert lasting(again) == lasting(whole)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("task", TASKS)
def test_a_run_equals_itself_stopped_after_any_batch(task, optimizer, tmp_path):
    settings = replace(SETTINGS, optimizer=optimizer, weight_decay=0.0 if optimizer == "adam" else 0.1)
    whole, _ = run(tmp_path / "whole", task, settings)
    for checks in range(1, 36):
        folder = tmp_path / f"stopped-{checks}"
        _, stop_reason = run(folder, task, settings, stop_after=checks)
        assert stop_reason == "signal"
        again, _ = run(folder, task, settings)
        assert lasting(again) == lasting(whole)
        assert timeless(read_metrics(folder / METRICS)) == timeless(read_metrics(tmp_path / "whole" / METRICS))


def test_each_step_is_logged_once(tmp_path):
    run(tmp_path, "pairs")
    steps = [record["step"] for record in read_metrics(tmp_path / METRICS) if "loss" in record]
    assert steps == [2, 4, 6, 8, 10, 12]
    validated = [record["step"] for record in read_metrics(tmp_path / METRICS) if "validation_loss" in record]
    assert validated == [5, 10, 12]


def test_the_loss_falls(tmp_path):
    settings = replace(
        SETTINGS, max_steps=60, gradient_accumulation=1, log_every=10, validate_every=1000, ema_decay=0.0
    )
    run(tmp_path, "pairs", settings)
    losses = [record["loss"] for record in read_metrics(tmp_path / METRICS) if "loss" in record]
    assert losses[-1] < losses[0] / 1.5


def test_the_best_model_is_kept_and_its_checkpoint_stays(tmp_path):
    kept: list[ValidationResult] = []
    settings = replace(
        SETTINGS, max_steps=12, validate_every=2, checkpoint_every=2, keep_checkpoints=1, best_metric="loss"
    )
    state, _ = run(tmp_path, "text", settings, losses=iter([5.0, 3.0, 4.0, 4.5, 4.0, 4.0]), kept=kept)
    assert [found.loss for found in kept] == [5.0, 3.0]
    assert state.progress.best_step == 4
    assert [parse_step(path) for path in list_checkpoints(tmp_path / CHECKPOINTS)] == [4, 12]


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    settings = replace(SETTINGS, max_steps=100, validate_every=1, patience=3, best_metric="loss")
    state, stop_reason = run(tmp_path, "text", settings, losses=iter([2.0, 1.0, 3.0, 3.0, 3.0, 0.1]))
    assert (stop_reason, state.progress.step, state.progress.best_step) == ("patience", 5, 2)


def test_epochs_end_a_run(tmp_path):
    settings = replace(SETTINGS, schedule="constant", max_steps=None, max_epochs=1.5, gradient_accumulation=1)
    state, stop_reason = run(tmp_path, "text", settings)
    assert stop_reason == "epochs"
    assert (state.progress.epoch, state.progress.step) == (
        1,
        state.progress.position + len(batch_source_of("text").epoch(0)),
    )


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(tmp_path):
    class Poisoned(Objective):
        def __call__(self, model, batch):
            loss = super().__call__(model, batch)
            self.calls.append(1)
            return replace(loss, total=loss.total * float("nan")) if len(self.calls) == 4 else loss

    objective = Poisoned(0.1)
    object.__setattr__(objective, "calls", [])
    state, trainer_context = new_state("pairs"), make_context(tmp_path)
    train(state, batch_source_of("pairs"), objective, SETTINGS, trainer_context)
    assert state.progress.skipped == 1
    assert all(bool(parameter.isfinite().all()) for parameter in state.model.parameters())
    (warning,) = trainer_context.reporter.warnings
    assert "step 2" in warning
    assert all(record["loss"] is not None for record in trainer_context.reporter.records)


def test_snapshots_are_kept_at_steps_that_double(tmp_path):
    run(tmp_path, "text", replace(SETTINGS, snapshots=True))
    assert [parse_step(path) for path in list_checkpoints(tmp_path / SNAPSHOTS)] == [1, 2, 4, 8]


def test_bfloat16_trains_too(tmp_path):
    state, _ = run(tmp_path, "pairs", replace(SETTINGS, precision="bfloat16"))
    assert state.progress.step == 12
    assert all(parameter.dtype == torch.float32 for parameter in state.model.parameters())
