"""Runs with a limit in minutes: the schedule ends when the time is up, and a resumed run follows the same plans."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from instants import MAY_FORK
from sightline.errors import SettingsError
from sightline.training.distributed import join_process_group
from sightline.training.loop import train
from sightline.training.metrics import METRICS, read_metrics
from sightline.training.objective import Objective
from sightline.training.settings import MAX_STEPS, TrainingSettings
from sightline.training.time_budget import Plan, Stopwatch, TimeBudget

from .examples import TASKS, batch_source_of
from .ranks import run_two_ranks
from .test_loop import lasting, make_context, new_state, run

SETTINGS = TrainingSettings(
    optimizer="adamw", learning_rate=1e-3, schedule="linear", warmup_steps=5, max_steps=100, max_minutes=1.0,
    gradient_accumulation=1, validate_every=20, checkpoint_every=7, log_every=1, ema_decay=0.9,
)  # fmt: skip


class Time:
    """A clock that a test sets; every batch takes the seconds of its update."""

    def __init__(self, seconds_of=lambda update: 0.6):
        self.now, self.seconds_of, self.update = 0.0, seconds_of, 0

    def __call__(self) -> float:
        return self.now

    def objective(self, smoothing: float = 0.1) -> Objective:
        time = self

        class Timed(Objective):
            def __call__(self, model, batch):
                time.update += 1
                time.now += time.seconds_of(time.update)
                return super().__call__(model, batch)

        return Timed(smoothing)


def run_in(time, folder, budget, settings=SETTINGS, *, task="pairs", expected=0.6):
    """Train within a virtual minute; at first each update is expected to take so many seconds."""
    folder.mkdir(exist_ok=True)
    state = new_state(task, settings)
    budget.begin(0, 0.0, seconds_per_update=expected)
    context = make_context(folder, budget=budget, clock=Stopwatch(clock=time))
    return state, train(state, batch_source_of(task), time.objective(), settings, context), context


def rates_of(folder) -> list[float]:
    return [record["learning_rate"] for record in read_metrics(folder / METRICS) if "loss" in record]


SPEEDS = {
    "steady": lambda update: 0.6,
    "slower than tried": lambda update: 1.2,
    "faster than tried": lambda update: 0.2,
    "a neighbor in the second half": lambda update: 0.6 if update < 50 else 2.4,
    "a neighbor in the first half": lambda update: 2.4 if update < 12 else 0.6,
    "every tenth update slow": lambda update: 3.0 if update % 10 == 0 else 0.3,
}


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_rate_is_at_its_minimum_when_the_time_is_up(speed, tmp_path):
    time = Time(SPEEDS[speed])
    state, stop_reason, _ = run_in(time, tmp_path, TimeBudget(SETTINGS))
    assert stop_reason == "minutes"
    assert 54 < time.now <= 60
    rates = rates_of(tmp_path)
    assert rates[-1] < 0.02 * SETTINGS.learning_rate
    assert max(rates) > 0.9 * SETTINGS.learning_rate
    assert rates[-1] == min(rates[10:])
    assert len(rates) == state.progress.step


def test_a_validation_is_part_of_the_time(tmp_path):
    time = Time()

    def validate():
        time.now += 3.0
        return result

    result = make_context(tmp_path).validate()
    budget = TimeBudget(SETTINGS)
    budget.begin(0, 0.0, seconds_per_update=0.6)
    context = replace(make_context(tmp_path, budget=budget, clock=Stopwatch(clock=time)), validate=validate)
    state = new_state("pairs", SETTINGS)
    assert train(state, batch_source_of("pairs"), time.objective(), SETTINGS, context) == "minutes"
    assert state.progress.seconds < 60 + 3.1  # the last validation is always made
    assert rates_of(tmp_path)[-1] < 0.03 * SETTINGS.learning_rate


def test_a_slow_validation_takes_updates_but_does_not_end_the_run(tmp_path):
    """Half of the time is that of one validation: the rest is used, and the schedule still ends."""
    settings = replace(SETTINGS, validate_every=40)
    time = Time()

    def validate():
        time.now += 25.0
        return result

    result = make_context(tmp_path).validate()
    budget = TimeBudget(settings)
    budget.begin(0, 0.0, seconds_per_update=0.6)
    context = replace(make_context(tmp_path, budget=budget, clock=Stopwatch(clock=time)), validate=validate)
    state = new_state("pairs", settings)
    train(state, batch_source_of("pairs"), time.objective(), settings, context)
    assert 53 < state.progress.step <= 58
    rates = rates_of(tmp_path)
    assert rates[-1] < 0.1 * settings.learning_rate
    assert max(a - b for a, b in pairwise(rates[10:])) < 0.2 * settings.learning_rate


def test_forecast_never_exceeds_the_time_that_is_left():
    time, budget = Time(), TimeBudget(SETTINGS)
    clock = Stopwatch(clock=time)
    budget.begin(0, 0.0, seconds_per_update=0.2)
    for step in range(1, 30):
        time.now += 2.0
        clock.count_update(100)
        assert (budget.seconds_left(step, clock) or 0) <= 60 - time.now


def test_planned_updates_are_bounded():
    budget = TimeBudget(replace(SETTINGS, max_minutes=1e9))
    assert budget.fit_steps(0, 0.0, 1e-6) == MAX_STEPS


def test_plans_are_few_and_each_is_said(tmp_path):
    budget = TimeBudget(SETTINGS)
    _, _, context = run_in(Time(lambda update: 0.5 + 0.01 * (update % 3)), tmp_path, budget)
    assert 1 < len(budget.plans) < 6
    said = [line for line in context.reporter.messages if "the schedule is adapted" in line]
    assert len(said) == len(budget.plans) - 1


def test_forecast_of_a_steady_run_is_steady():
    time, budget = Time(), TimeBudget(SETTINGS)
    clock = Stopwatch(clock=time)
    budget.begin(0, 0.0, seconds_per_update=0.6)
    forecasts = []
    for step in range(1, 90):
        time.now += 5.0 if step == 1 else 0.6  # the first update is slow
        clock.count_update(100)
        if (left := budget.seconds_left(step, clock)) is not None:
            forecasts.append(time.now + left)
    assert max(forecasts) - min(forecasts) < 1


@given(
    changes=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 400)), max_size=6),
    max_steps=st.integers(1, 500),
    first=st.integers(1, 500),
)
def test_the_schedule_never_jumps_back_and_ends_with_the_last_update(changes, max_steps, first):
    budget = TimeBudget(replace(SETTINGS, max_steps=max_steps, warmup_steps=0), [])
    budget.plans = [Plan(0, 0.0, first, 0.0, 1.0, max_steps)]
    step = 0
    for after, left in changes:
        step += after
        if step >= (budget.total_steps(step) or 0):
            break
        before = budget.schedule_step(step)
        budget.adopt(step, 0.0, step + left)
        assert budget.schedule_step(step) == before
    total = budget.total_steps(1 << 40) or 0
    steps = [float(budget.schedule_step(update)) for update in range(1, total + 1)]
    assert steps == sorted(steps)
    assert steps[-1] == max_steps


@pytest.mark.parametrize("task", TASKS)
def test_a_run_stopped_through_every_plan_equals_one_that_follows_the_same_plans(task, tmp_path):
    """Each part has a clock of its own, so each plans anew; all plans together make one run."""
    settings = replace(SETTINGS, max_steps=30, warmup_steps=3, validate_every=6, checkpoint_every=4)
    written: list[list[Plan]] = [[]]
    stop_reason, parts, spent = "signal", 0, 0.0
    while stop_reason == "signal":
        parts += 1
        time = Time(lambda update, slow=parts % 2: 1.0 + slow)
        budget = TimeBudget(settings, written[-1], write=lambda plans: written.append(list(plans)))
        budget.begin(0, 0.0, seconds_per_update=2.5)
        clock = Stopwatch(spent, clock=time)
        ended, stop_reason = run(
            tmp_path / "parts", task, settings, stop_after=11, budget=budget, clock=clock, objective=time.objective()
        )
        spent = clock.elapsed()
    assert parts > 1
    assert len(written[-1]) > 2
    whole, _ = run(tmp_path / "whole", task, settings, budget=TimeBudget(settings, written[-1]), clock=standing())
    assert lasting(whole) == lasting(ended)
    assert rates_of(tmp_path / "whole") == rates_of(tmp_path / "parts")


def standing() -> Stopwatch:
    """A clock that does not move: nothing is reviewed, and no time is ever up."""
    return Stopwatch(clock=lambda: 0.0)


def test_plans_made_after_the_checkpoint_are_followed_again():
    """A run is killed after a plan, and resumed from a checkpoint before it."""
    plans = [Plan(0, 0.0, 100, 0.0, 1.0, 100), Plan(40, 40.0, 60, 20.0, 1.0, 100)]
    budget = TimeBudget(SETTINGS, plans)
    budget.begin(30, 15.0, seconds_per_update=0.6)
    assert budget.plans == plans
    assert (budget.total_steps(30), budget.total_steps(40)) == (100, 60)
    assert [budget.schedule_step(update) for update in (40, 50, 60)] == [40.0, 70.0, 100.0]


def test_a_plan_still_to_be_followed_is_not_replaced():
    time = Time()
    budget = TimeBudget(SETTINGS, [Plan(0, 0.0, 100, 0.0, 1.0, 100), Plan(40, 40.0, 60, 20.0, 1.0, 100)])
    clock = Stopwatch(clock=time)
    budget.begin(30, 0.0, seconds_per_update=0.6)
    for _ in range(9):
        time.now += 5
        clock.count_update(1)
    assert budget.review(39, clock) == 0
    assert budget.review(40, clock) > 40


def test_more_minutes_make_a_new_plan_from_where_the_run_is():
    budget = TimeBudget(replace(SETTINGS, max_minutes=2.0), [Plan(0, 0.0, 100, 0.0, 1.0, 100)])
    budget.begin(50, 30.0, seconds_per_update=0.6)
    assert budget.plans[-1].max_minutes == 2.0
    assert 190 < (budget.total_steps(50) or 0) <= 200
    assert 25 < budget.schedule_step(51) < 28  # a quarter of the time is over, and of the schedule


def test_a_limit_in_updates_holds_besides_the_minutes(tmp_path):
    budget = TimeBudget(SETTINGS, max_total=40)
    state, stop_reason, _ = run_in(Time(), tmp_path, budget)
    assert (state.progress.step, stop_reason) == (40, "steps")
    assert rates_of(tmp_path)[-1] < 0.05 * SETTINGS.learning_rate


def test_without_minutes_there_is_no_plan(tmp_path):
    settings = replace(SETTINGS, max_minutes=None, max_steps=12)
    budget = TimeBudget(settings)
    state, stop_reason, _ = run_in(Time(lambda update: 100.0), tmp_path, budget, settings)
    assert (state.progress.step, stop_reason, budget.plans) == (12, "steps", [])


@pytest.mark.parametrize("field", ["step", "total_steps", "seconds"])
def test_a_plan_with_nonsense_is_refused(field):
    with pytest.raises(SettingsError, match=f"{field} must be 0 or more"):
        replace(Plan(0, 0.0, 100, 0.0, 1.0, 100), **{field: -1 if field != "seconds" else -1.0})


@MAY_FORK
def test_the_main_rank_plans_for_all(tmp_path):
    """The other rank's clock stands: alone it would keep the first plan."""

    def work(index: int) -> None:
        with join_process_group(torch.device("cpu")) as rank:
            time = Time(lambda update: 1.5 if index == 0 else 0.0)
            budget = TimeBudget(SETTINGS)
            budget.begin(0, 0.0, seconds_per_update=0.6)
            folder = tmp_path / str(index)
            folder.mkdir()
            context = make_context(folder, budget=budget, clock=Stopwatch(clock=time), rank=rank)
            source = batch_source_of("pairs", rank=index, world=2)
            state = new_state("pairs", SETTINGS)
            assert train(state, source, time.objective(), SETTINGS, context) == "minutes"
            (folder / "end").write_text(f"{state.progress.step} {[plan.total_steps for plan in budget.plans]}")

    run_two_ranks(work)
    first, second = ((tmp_path / name / "end").read_text() for name in "01")
    assert first == second
    assert 30 < int(first.split()[0]) <= 40


@pytest.mark.parametrize("task", TASKS)
def test_speed_is_in_tokens_for_every_task(task, tmp_path):
    """Not in labels, nor in masked tokens."""
    settings = replace(SETTINGS, max_minutes=None, max_steps=6, gradient_accumulation=2)
    counted = []

    class Watched(Stopwatch):
        def count_update(self, tokens):
            counted.append(tokens)
            super().count_update(tokens)

    run(tmp_path, task, settings, clock=Watched(clock=lambda: 0.0))
    epochs = [batch for epoch in range(4) for batch in batch_source_of(task).epoch(epoch)]
    lengths = [int(batch.lengths.sum()) for batch in epochs[:12]]
    assert counted == [a + b for a, b in zip(lengths[::2], lengths[1::2], strict=True)]


def test_pauses_do_not_count_as_slow_training():
    time = Time()
    clock = Stopwatch(clock=time)
    for _ in range(3):
        time.now += 2
        clock.count_update(100)
        with clock.pause(validation=True):
            time.now += 1000
    assert clock.tokens_per_second() == 50
    assert clock.elapsed() == 3006
