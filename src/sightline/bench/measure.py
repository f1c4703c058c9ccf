"""Timing that a noisy machine cannot bend much: everybody takes turns, medians are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long one contender took, in seconds a call."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of all turns."""
        return statistics.median(self.seconds)

    def speed_against(self, other: "Timing") -> float:
        """Return how many times faster this is than another, turn by turn, so that slow minutes cancel out."""
        return statistics.median(b / a for a, b in zip(self.seconds, other.seconds, strict=True))


def take_turns(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up: int = 2,
    after_round: Callable[[int], object] = lambda _: None,
) -> list[Timing]:
    """Call every contender once a round, after some rounds that do not count, and return their timings in order."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(-warm_up, rounds):
        for name, call in contenders.items():
            started = time.perf_counter()
            call()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - started)
        after_round(turn)
    return [Timing(name, tuple(taken)) for name, taken in seconds.items()]
