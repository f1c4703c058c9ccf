"""Growth curves: one number of a workload is doubled again and again, and each contender's time is followed.

Between two points a time grows as a power of the number: 0 where it does not matter, 1 where the work is proportional
to it, 2 where everything is compared with everything. A curve bends where that power changes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from sightline.bench.contenders import Contender, Plan
from sightline.bench.limits import Machine, describe_machine

BEND = 0.35
"""A change of the power by as much is a bend; noise is smaller."""


@dataclass(frozen=True)
class Curve:
    """The median time of one contender at each value; None where it failed."""

    name: str
    seconds: tuple[float | None, ...]


def doubled(low: int, high: int) -> list[int]:
    """Return low, twice low, … up to high."""
    if low < 1 or high < low:
        return []
    return [low * 2**step for step in range(int(math.log2(high / low)) + 1)]


def powers(values: Sequence[int], seconds: Sequence[float | None]) -> list[float | None]:
    """Return the power by which the time grows between each value and the next."""
    found: list[float | None] = []
    for (low, high), (before, after) in zip(pairwise(values), pairwise(seconds), strict=True):
        if before and after:
            found.append(math.log(after / before) / math.log(high / low))
        else:
            found.append(None)
    return found


def bends(values: Sequence[int], seconds: Sequence[float | None]) -> list[tuple[int, float, float]]:
    """Return where a curve bends: the value, and the powers before and after it.

    Powers are compared over two doublings each, so that one noisy point is no bend.
    """
    found: list[tuple[int, float, float]] = []
    level: float | None = None
    steps = powers(values, seconds)
    for number, power in enumerate(steps):
        if power is None:
            continue
        if level is None:
            level = power
            continue
        following = [one for one in steps[number : number + 2] if one is not None]
        mean = sum(following) / len(following)
        if abs(mean - level) >= BEND and abs(power - level) >= BEND / 2:
            found.append((values[number], level, mean))
            level = mean
        else:
            level = (level + power) / 2
    return found


def describe_bends(values: Sequence[int], curve: Curve) -> str:
    """Say in words how a curve grows."""
    steps = [one for one in powers(values, curve.seconds) if one is not None]
    if not steps:
        return "too few points"
    found = bends(values, curve.seconds)
    if not found:
        return f"grows with power {sum(steps) / len(steps):.1f} throughout"
    parts = [f"power {found[0][1]:.1f} up to {found[0][0]:,}"]
    parts += [f"{after:.1f} from {value:,}" for value, _, after in found]
    return "grows with " + ", ".join(parts)


@dataclass(frozen=True)
class GrowthReport:
    """One benchmark at several values of one number."""

    command: str
    about: str
    number: str
    values: Sequence[int]
    curves: Sequence[Curve]
    machine: Machine

    def as_json(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return {
            "command": self.command,
            "about": self.about,
            "number": self.number,
            "values": list(self.values),
            "machine": asdict(self.machine),
            "curves": [
                {
                    "name": curve.name,
                    "seconds": list(curve.seconds),
                    "powers": powers(self.values, curve.seconds),
                    "growth": describe_bends(self.values, curve),
                }
                for curve in self.curves
            ],
        }

    def as_text(self) -> str:
        """Return the table: a row a contender, a column a value."""
        width = max((len(curve.name) for curve in self.curves), default=0) + 2
        lines = [f"{self.about}; ms by {self.number}", str(self.machine)]
        lines.append(" " * (width + 2) + "".join(f"{value:>12,}" for value in self.values))
        for curve in self.curves:
            cells = ["failed".rjust(12) if one is None else f"{one * 1e3:12,.1f}" for one in curve.seconds]
            lines.append(f"  {curve.name:{width}}" + "".join(cells))
            lines.append(f"  {'':{width}}  {describe_bends(self.values, curve)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Growth:
    """The number that grows, and its values."""

    number: str
    values: Sequence[int]


def measure_growth(
    command: str,
    about: str,
    growth: Growth,
    contenders: Sequence[Contender],
    arguments_at: Callable[[int], Mapping[str, Any]],
    plan: Plan,
) -> GrowthReport:
    """Let the contenders take turns at each value; who fails at one, takes part in the others all the same."""
    machine = describe_machine()
    found: dict[str, list[float | None]] = {}
    for value in growth.values:
        at = f"{growth.number} {value:,}"

        def note(text: str, at: str = at) -> None:
            plan.note(f"{at}: {text}")

        for one in replace(plan, note=note).run(contenders, arguments_at(value)):
            found.setdefault(one.name, []).append(one.timing.median if one.timing else None)
    curves = [Curve(name, tuple(seconds)) for name, seconds in found.items()]
    return GrowthReport(command, about, growth.number, growth.values, curves, machine)
