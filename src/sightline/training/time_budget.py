"""The time of a run: how fast it is, how long it will take, and, with `training.max_minutes`, when it must end.

The schedule of the learning rate has a length in updates, `max_steps`. With a limit in minutes a plan says which update
will be the last one, and the schedule then goes faster or slower than the updates, so that both end together:

    step of the schedule
    max_steps |              /      at first two minutes seemed enough for 400 updates;
              |            /        then a neighbor made the machine slower, and the second plan has 300.
              |       _ -           The learning rate is a function of the step of the schedule:
              |  _ -                no plan makes it jump, and it is at its minimum when the time is up.
              +------------------ updates

At a few shares of the time, the main rank checks whether the plan still holds, and replaces it if not. Every plan is
written to run.json before it is followed, and a resumed run follows the same ones. If a resumed run is given other
minutes, its schedule continues at the share of the updates that are done.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sightline.training.settings import MAX_STEPS, SCHEDULES_WITH_END, TrainingSettings
from sightline.training.state import check_fields

REVIEWS = (0.02, 0.05, 0.1, 0.15, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.96)
"""Shares of the time after which the plan is reviewed: often at first, when little is known."""
TOLERANCE = 0.02
"""A new plan must change the number of remaining updates by more than this share."""
RESERVE = 0.005
"""Share of the time left free, so that the last update comes before the time is up."""
SPEED_WINDOW = 20
"""Updates that the reported speed is the mean of."""
MIN_UPDATES = 8
"""Updates to measure the speed over; with fewer, all updates of this process count."""


@dataclass(frozen=True)
class Plan:
    """When a run will end; it holds for the updates after `step`."""

    step: int
    """Updates done when the plan was made."""
    schedule_step: float
    """Step of the schedule at that update."""
    total_steps: int
    """The last update."""
    seconds: float
    """Training time when the plan was made."""
    max_minutes: float
    """Limit that the plan was made for."""
    max_steps: int
    """Length of the schedule that the plan was made for."""

    def __post_init__(self) -> None:
        check_fields(self)

    def schedule_step_at(self, step: int) -> float:
        """Return the step of the schedule at an update, on a line that ends with the last update."""
        if step >= self.total_steps:
            return float(self.max_steps)
        share = (step - self.step) / (self.total_steps - self.step)
        return self.schedule_step + share * (self.max_steps - self.schedule_step)


class Stopwatch:
    """Training time over all resumes, and the speed of this process; validations and saves do not slow it down."""

    def __init__(self, seconds: float | int = 0.0, *, clock: Callable[[], float | int] = time.monotonic) -> None:
        self.clock = clock
        self._before, self._start = seconds, clock()
        self._paused, self._n_validations = 0.0, 0
        self.pending_tokens = 0
        """Tokens that this process has read since the last update."""
        self._tokens = 0
        self._marks: list[tuple[float | int, int]] = []
        self._first = self._last = (0.0, 0)
        """Seconds of updates, and updates: at the first one, which takes longer than the others, and at the last."""

    def elapsed(self) -> float:
        """Return the seconds so far."""
        return self._before + self.clock() - self._start

    @contextmanager
    def pause(self, *, validation: bool = False) -> Iterator[None]:
        """Measure what is not an update: a validation, a checkpoint."""
        start = self.clock()
        try:
            yield
        finally:
            self._paused += self.clock() - start
            self._n_validations += validation

    def count_batch(self, tokens: int) -> None:
        """Count the tokens of a batch of this process."""
        self.pending_tokens += tokens

    def count_update(self, tokens: int) -> None:
        """Count an update with the tokens that all processes have read for it."""
        self.pending_tokens = 0
        self._tokens += tokens
        active = self.clock() - self._start - self._paused
        self._last = (active, self._last[1] + 1)
        if self._first[1] == 0:
            self._first = self._last
        self._marks = [*self._marks[-SPEED_WINDOW:], (active, self._tokens)]

    def tokens_per_second(self) -> float:
        """Return the speed of the last updates; 0 before the second."""
        if len(self._marks) < 2:
            return 0.0
        (first, tokens_then), (last, tokens_now) = self._marks[0], self._marks[-1]
        return (tokens_now - tokens_then) / (last - first) if last > first else 0.0

    def mark(self) -> tuple[float | int, int]:
        """Return the seconds of updates, and the updates, of this process so far."""
        return self._last

    def seconds_per_update(self, since: tuple[float | int, int] = (0.0, 0)) -> float | None:
        """Return the mean time of an update since a mark, without validations; None before the second."""
        mark = since if self._last[1] - since[1] >= MIN_UPDATES and since[1] else self._first
        n_updates = self._last[1] - mark[1]
        return (self._last[0] - mark[0]) / n_updates if n_updates else None

    def validation_seconds(self) -> float:
        """Return the mean time of a validation and the saves around it, 0 before the first."""
        return self._paused / self._n_validations if self._n_validations else 0.0


class TimeBudget:
    """The plans of a run. Without a limit in minutes there are none, and the schedule goes with the updates.

    `plans` are those in run.json. Plans made at later updates than the run now has are followed when it gets there: the
    run was killed after such a plan, and continues from a checkpoint before it.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        plans: Sequence[Plan] = (),
        *,
        max_total: int | None = None,
        planned: bool = True,
        write: Callable[[Sequence[Plan]], None] | None = None,
    ) -> None:
        self.settings, self.write = settings, write
        self.limit = settings.max_minutes * 60 if settings.max_minutes is not None and planned else None
        """Seconds that the run is planned for; without `planned`, the minutes are only a limit for the loop."""
        self.max_total = max_total
        """Limit in updates that the user has set, besides the minutes."""
        self.plans = list(plans) if self.limit is not None else []
        self._mark, self._reviewed = (0.0, 0), 0.0

    def begin(self, step: int, seconds: float | int, *, seconds_per_update: float | int) -> None:
        """Make a plan for a run that has none, or one made for other limits."""
        self._reviewed = seconds
        if self.limit is None or self.settings.max_steps is None:
            return
        goal = (self.settings.max_minutes, self.settings.max_steps)
        if not self.plans or (self.plans[-1].max_minutes, self.plans[-1].max_steps) != goal:
            self.plans = [plan for plan in self.plans if plan.step < step]
            total = self.fit_steps(step, seconds, seconds_per_update)
            self._append(step, seconds, total, schedule_step=self.settings.max_steps * step / total)

    def plan_for(self, update: int) -> Plan | None:
        """Return the plan that holds for an update: the latest one made before it."""
        return next((plan for plan in reversed(self.plans) if plan.step < update), None)

    def total_steps(self, step: int) -> int | None:
        """Return the last update, as known after `step` updates, if there is one."""
        plan = self.plan_for(step + 1)
        return plan.total_steps if plan else self.settings.max_steps

    @property
    def fits_schedule(self) -> bool:
        """Whether the schedule is fitted to the time: it has an end."""
        return self.limit is not None and self.settings.schedule in SCHEDULES_WITH_END

    def schedule_step(self, update: int) -> float | int:
        """Return which step of the schedule an update is."""
        plan = self.plan_for(update) if self.fits_schedule else None
        return plan.schedule_step_at(update) if plan else update

    def review(self, step: int, clock: Stopwatch) -> int:
        """Return the last update of a better plan if one is due, else 0."""
        seconds, plan = clock.elapsed(), self.plan_for(step + 1)
        if self.limit is None or plan is None or plan is not self.plans[-1] or not self._is_due(seconds):
            return 0
        speed = clock.seconds_per_update(self._mark)
        if speed is None:
            return 0
        self._reviewed, self._mark = seconds, clock.mark()
        total = self.fit_steps(step, seconds, speed, validation_seconds=clock.validation_seconds())
        changed = abs(total - plan.total_steps) > TOLERANCE * max(1, plan.total_steps - step)
        return total if changed else 0

    def adopt(self, step: int, seconds: float | int, total: int) -> Plan:
        """Replace the plan after an update; all ranks do so together."""
        return self._append(step, seconds, total, schedule_step=self.schedule_step(step))

    def fit_steps(
        self,
        step: int,
        seconds: float | int,
        seconds_per_update: float | int,
        *,
        validation_seconds: float | int = 0.0,
    ) -> int:
        """Return the last update that the time allows, at least one more, with the validations before it."""
        every, update = self.settings.validate_every, max(seconds_per_update, 1e-9)
        left = (self.limit or 0.0) * (1 - RESERVE) - seconds
        until_validation = every - step % every
        if left <= until_validation * update:
            n_updates = int(left / update)
        else:
            left = max(0.0, left - until_validation * update - validation_seconds)
            n_periods, rest = divmod(left, every * update + validation_seconds)
            n_updates = until_validation + int(n_periods) * every + min(every, int(rest / update))
        total = min(step + max(1, n_updates), MAX_STEPS)
        return total if self.max_total is None else max(step + 1, min(total, self.max_total))

    def seconds_left(self, step: int, clock: Stopwatch) -> float | None:
        """Return how long the run will still take, validations included, if that is known."""
        total, speed = self.total_steps(step), clock.seconds_per_update(self._mark)
        if total is None or speed is None or step >= total:
            return None
        n_validations = (total - 1) // self.settings.validate_every - step // self.settings.validate_every
        needed = (total - step) * speed + n_validations * clock.validation_seconds()
        return needed if self.limit is None else max(0.0, min(needed, self.limit - clock.elapsed()))

    def _is_due(self, seconds: float) -> bool:
        limit = self.limit or 0.0
        first = self._mark[1] == 0 and seconds - self._reviewed >= REVIEWS[0] * limit  # this machine may be another one
        return first or any(self._reviewed < share * limit <= seconds for share in REVIEWS)

    def _append(self, step: int, seconds: float | int, total: int, *, schedule_step: float | int) -> Plan:
        settings = self.settings
        plan = Plan(step, schedule_step, total, seconds, settings.max_minutes or 0.0, settings.max_steps or 0)
        self.plans = [*(earlier for earlier in self.plans if earlier.step < step), plan]
        if self.write is not None:
            self.write(self.plans)
        return plan
