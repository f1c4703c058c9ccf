"""The loop: what it does when, and that a run which is stopped anywhere goes on as if it had not been (T4)."""

import dataclasses
import signal
from dataclasses import replace

import pytest
import torch

from sightline.training import loop
from sightline.training.average import RunningAverage
from sightline.training.checkpoint import resume, save
from sightline.training.distributed import Rank
from sightline.training.loop import CHECKPOINTS, SNAPSHOTS, Surroundings, train, validated_step
from sightline.training.metrics import FILE_NAME, MetricsFile, read
from sightline.training.objective import Objective
from sightline.training.optimizer import make_optimizer
from sightline.training.report import SilentReporter
from sightline.training.rotation import checkpoints, step_of
from sightline.training.settings import TrainingSettings
from sightline.training.signals import StopRequest
from sightline.training.state import Progress, TrainingState
from sightline.training.validation import Validation

from .examples import TASKS, feed_of, model_for
from .toy import fingerprint

SETTINGS = TrainingSettings(
    optimizer="adamw",
    schedule="cosine",
    learning_rate=0.01,
    warmup_steps=3,
    weight_decay=0.1,
    label_smoothing=0.1,
    accumulate=3,
    clip_norm=1.0,
    average_decay=0.9,
    max_steps=12,
    validate_every=5,
    checkpoint_every=4,
    log_every=2,
    seed=5,
)


class StopAfter(StopRequest):
    """Asks for a stop once it was looked at so many times: in the middle of an accumulation, mostly."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def __bool__(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.signal = signal.SIGTERM
        return super().__bool__()


def new_state(task: str, settings: TrainingSettings = SETTINGS) -> TrainingState:
    model = model_for(task, dropout=0.1)
    torch.manual_seed(settings.seed)
    average = RunningAverage(model, decay=settings.average_decay) if settings.average_decay else None
    return TrainingState(model, make_optimizer(model, settings), average, Progress(seed=settings.seed))


def around(folder, *, stop=None, losses=None, kept=None, rank=None) -> Surroundings:
    """Validations draw random numbers, which must change nothing."""
    metrics = MetricsFile(folder / FILE_NAME)

    def validate() -> Validation:
        torch.rand(3)
        return Validation(next(losses) if losses else 1.0, ("bleu", 0.0), True)

    return Surroundings(
        folder,
        SilentReporter(),
        lambda record, samples: metrics.append(record),
        validate,
        (lambda found: kept.append(found)) if kept is not None else (lambda found: None),
        rank or Rank(),
        StopRequest() if stop is None else stop,
    )


def run(folder, task, settings=SETTINGS, *, stop_after=None, **options):
    """Train from the last checkpoint of the folder, if there is one, as a run does."""
    folder.mkdir(exist_ok=True)
    state = new_state(task, settings)
    found = resume(state, folder / CHECKPOINTS)
    MetricsFile(folder / FILE_NAME).cut_back(state.progress.step if found else -1, validated=validated_step(state))
    stop = None if stop_after is None else StopAfter(stop_after)
    objective = Objective(0.1, agreement=settings.agreement)
    ending = train(state, feed_of(task), objective, settings, around(folder, stop=stop, **options))
    return state, ending


def lasting(state) -> dict[str, str]:
    """Return everything about a state but the time it took."""
    timeless = dataclasses.replace(state, progress=replace(state.progress, seconds=0.0))
    return fingerprint(timeless)


def timeless(records) -> list[dict]:
    return [{k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")} for r in records]


@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_is_stopped_again_and_again_equals_one_that_is_not(task, tmp_path):
    whole, ending = run(tmp_path / "whole", task)
    assert ending == "steps"
    parts = tmp_path / "parts"
    for looks in (1, 4, 8, 2, 11):  # after so many batches each time: between updates, and within them
        _, ending = run(parts, task, stop_after=looks)
        assert ending == "signal"
    again, ending = run(parts, task)
    assert ending == "steps"
    assert lasting(again) == lasting(whole)
    assert timeless(read(parts / FILE_NAME)) == timeless(read(tmp_path / "whole" / FILE_NAME))


class Killed(BaseException):
    """What comes instead of a save: nothing in the loop can catch it."""


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_run_that_is_killed_before_any_save_ends_as_one_that_is_not(nth, tmp_path, monkeypatch):
    settings = replace(SETTINGS, max_steps=4, validate_every=3, checkpoint_every=1, log_every=1)
    whole, _ = run(tmp_path / "whole", "pairs", settings)
    saves = iter(range(1, 100))

    def save_or_die(state, folder, *, keep_last):
        if next(saves) == nth:
            raise Killed
        return save(state, folder, keep_last=keep_last)

    monkeypatch.setattr(loop, "save", save_or_die)
    with pytest.raises(Killed):
        run(tmp_path / "killed", "pairs", settings)
    again, _ = run(tmp_path / "killed", "pairs", settings)
    assert lasting(again) == lasting(whole)
    assert timeless(read(tmp_path / "killed" / FILE_NAME)) == timeless(read(tmp_path / "whole" / FILE_NAME))


def test_so_does_one_that_reads_every_batch_twice(tmp_path):
    settings = replace(SETTINGS, agreement=2.0, max_steps=5)
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
    for looks in range(1, 36):
        folder = tmp_path / f"stopped-{looks}"
        _, ending = run(folder, task, settings, stop_after=looks)
        assert ending == "signal"
        again, _ = run(folder, task, settings)
        assert lasting(again) == lasting(whole)
        assert timeless(read(folder / FILE_NAME)) == timeless(read(tmp_path / "whole" / FILE_NAME))


def test_each_step_stands_once_in_the_log(tmp_path):
    run(tmp_path, "pairs")
    steps = [record["step"] for record in read(tmp_path / FILE_NAME) if "loss" in record]
    assert steps == [2, 4, 6, 8, 10, 12]
    validated = [record["step"] for record in read(tmp_path / FILE_NAME) if "validation_loss" in record]
    assert validated == [5, 10, 12]


def test_a_run_learns(tmp_path):
    settings = replace(SETTINGS, max_steps=60, accumulate=1, log_every=10, validate_every=1000, average_decay=0.0)
    run(tmp_path, "pairs", settings)
    losses = [record["loss"] for record in read(tmp_path / FILE_NAME) if "loss" in record]
    assert losses[-1] < losses[0] / 1.5


def test_the_best_model_is_kept_and_its_checkpoint_stays(tmp_path):
    kept: list[Validation] = []
    settings = replace(SETTINGS, max_steps=12, validate_every=2, checkpoint_every=2, keep_last=1, best_by="loss")
    state, _ = run(tmp_path, "text", settings, losses=iter([5.0, 3.0, 4.0, 4.5, 4.0, 4.0]), kept=kept)
    assert [found.loss for found in kept] == [5.0, 3.0]
    assert state.progress.best_step == 4
    assert [step_of(path) for path in checkpoints(tmp_path / CHECKPOINTS)] == [4, 12]


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    settings = replace(SETTINGS, max_steps=100, validate_every=1, patience=3, best_by="loss")
    state, ending = run(tmp_path, "text", settings, losses=iter([2.0, 1.0, 3.0, 3.0, 3.0, 0.1]))
    assert (ending, state.progress.step, state.progress.best_step) == ("patience", 5, 2)


def test_passes_over_the_data_end_a_run(tmp_path):
    settings = replace(SETTINGS, schedule="constant", max_steps=None, max_epochs=1.5, accumulate=1)
    state, ending = run(tmp_path, "text", settings)
    assert ending == "epochs"
    assert (state.progress.epoch, state.progress.step) == (1, state.progress.position + len(feed_of("text").epoch(0)))


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(tmp_path):
    class Poisoned(Objective):
        def __call__(self, model, batch):
            loss = super().__call__(model, batch)
            self.calls.append(1)
            return replace(loss, total=loss.total * float("nan")) if len(self.calls) == 4 else loss

    objective = Poisoned(0.1)
    object.__setattr__(objective, "calls", [])
    state, surroundings = new_state("pairs"), around(tmp_path)
    train(state, feed_of("pairs"), objective, SETTINGS, surroundings)
    assert state.progress.skipped == 1
    assert all(bool(parameter.isfinite().all()) for parameter in state.model.parameters())
    (warning,) = surroundings.reporter.warnings
    assert "step 2" in warning
    assert all(record["loss"] is not None for record in surroundings.reporter.records)


def test_snapshots_are_kept_at_steps_that_double(tmp_path):
    run(tmp_path, "text", replace(SETTINGS, snapshots=True))
    assert [step_of(path) for path in checkpoints(tmp_path / SNAPSHOTS)] == [1, 2, 4, 8]


def test_bfloat16_trains_too(tmp_path):
    state, _ = run(tmp_path, "pairs", replace(SETTINGS, precision="bfloat16"))
    assert state.progress.step == 12
    assert all(parameter.dtype == torch.float32 for parameter in state.model.parameters())
