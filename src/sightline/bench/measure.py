"""Timing that is robust on a noisy machine: contenders take turns, and are compared round by round."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Times of one contender, in seconds per call."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median over all rounds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles: half of the rounds lie between them."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def speed_against(self, other: "Timing") -> float:
        """Return how many times faster this is than another, round by round, so that slow minutes cancel out."""
        return statistics.median(b / a for a, b in zip(self.seconds, other.seconds, strict=True))


def time_interleaved(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up: int = 2,
    after_round: Callable[[int], object] = lambda _: None,
) -> list[Timing]:
    """Call every contender once per round, after some warm-up rounds, and return their timings in order."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(-warm_up, rounds):
        for name, call in contenders.items():
            taken = seconds_of(call)
            if round_ >= 0:
                seconds[name].append(taken)
        after_round(round_)
    return [Timing(name, tuple(taken)) for name, taken in seconds.items()]


def seconds_of(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def median_seconds(call: Callable[[], object], *, repeats: int, warm_up: int = 1) -> float:
    """Return the median time of a call."""
    for _ in range(warm_up):
        call()
    return statistics.median(seconds_of(call) for _ in range(repeats))
