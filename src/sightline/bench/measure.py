"""Timing that is robust on a noisy machine: contenders interleaved, medians compared; and `sightline bench startup`."""

import statistics
import subprocess
import sys
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
            started = time.perf_counter()
            call()
            if round_ >= 0:
                seconds[name].append(time.perf_counter() - started)
        after_round(round_)
    return [Timing(name, tuple(taken)) for name, taken in seconds.items()]


STARTUP_COMMANDS = {
    "import sightline": ["-c", "import sightline"],
    "sightline --help": ["-m", "sightline.cli.main", "--help"],
    "python, nothing else": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
}


def fresh_interpreter(arguments: list[str]) -> Callable[[], object]:
    """Return a function that runs python with these arguments and waits for it."""
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words


def bench_startup(*, rounds: int, after_round: Callable[[int], object] = lambda _: None) -> list[Timing]:
    """Time the start of a new interpreter for each command, to compare ours with importing torch."""
    contenders = {name: fresh_interpreter(words) for name, words in STARTUP_COMMANDS.items()}
    return time_interleaved(contenders, rounds=rounds, warm_up=1, after_round=after_round)
