"""The estimated time until a run ends, from the speed of its steps so far."""

import time
from collections.abc import Callable

from sightline.training.formatting import format_duration

Clock = Callable[[], float]


class ETA:
    """Estimates the remaining time from the steps of this process, validations and checkpoints included."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.total_steps: int | None = None
        self.first_step = 0
        self.start = clock()

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Start the clock."""
        self.total_steps, self.first_step, self.start = total_steps, step, self.clock()

    def format_remaining(self, step: int) -> list[str]:
        """Return the remaining time as text, or nothing if it cannot be known."""
        done = step - self.first_step
        if self.total_steps is None or done <= 0 or step >= self.total_steps:
            return []
        return [f"{format_duration((self.clock() - self.start) / done * (self.total_steps - step))} left"]
