"""`sightline bench startup`: start-up time of a new interpreter, compared with importing torch."""

import subprocess
import sys
from collections.abc import Callable

from sightline.bench.measure import Timing, time_interleaved

COMMANDS = {
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
    """Time each command, interleaved."""
    contenders = {name: fresh_interpreter(words) for name, words in COMMANDS.items()}
    return time_interleaved(contenders, rounds=rounds, warm_up=1, after_round=after_round)
