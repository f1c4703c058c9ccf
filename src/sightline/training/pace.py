"""How fast the steps of a run go, and how long the rest of them will take."""

import time
from collections.abc import Callable

from sightline.training.wording import duration

Clock = Callable[[], float]


class Pace:
    """The steps of this process, with the validations and checkpoints between them."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.total_steps: int | None = None
        self.first = 0
        self.began = clock()

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Start the clock before the step that follows."""
        self.total_steps, self.first, self.began = total_steps, step, self.clock()

    def left(self, step: int) -> list[str]:
        """Say how long the rest will take, or nothing where that cannot be known."""
        done = step - self.first
        if self.total_steps is None or done <= 0 or step >= self.total_steps:
            return []
        return [f"{duration((self.clock() - self.began) / done * (self.total_steps - step))} left"]
