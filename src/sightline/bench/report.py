"""What the benchmarks print: a table for people, JSON for programs; and the limits beside the results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sightline.bench.contenders import Result
from sightline.bench.limits import Machine
from sightline.bench.measure import Timing


@dataclass(frozen=True)
class Limit:
    """What the machine allows: no contender can be faster."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """One benchmark."""

    command: str
    about: str
    results: Sequence[Result]
    machine: Machine
    tokens: int | None = None
    """Tokens of one run, if there is a speed in tokens."""
    limits: Sequence[Limit] = ()
    remarks: Sequence[str] = ()

    @property
    def first(self) -> Timing | None:
        """The time of ours."""
        return next((one.timing for one in self.results if one.timing), None)

    def ratio(self, result: Result) -> float | None:
        """Return how many times as fast as this one ours is."""
        if self.first is None or result.timing is None or not result.is_peer:
            return None
        return self.first.speed_against(result.timing)

    def as_json(self) -> dict[str, Any]:
        """Return everything that was measured."""
        return {
            "command": self.command,
            "about": self.about,
            "tokens": self.tokens,
            "machine": asdict(self.machine),
            "limits": [asdict(limit) for limit in self.limits],
            "results": [
                {
                    "name": one.name,
                    "setting": one.setting,
                    "median_seconds": one.timing.median if one.timing else None,
                    "quartiles": one.timing.spread if one.timing else None,
                    "ratio": self.ratio(one),
                    "peak_bytes": one.peak_bytes or None,
                    "facts": dict(one.facts),
                    "error": one.error,
                    "seconds": one.timing.seconds if one.timing else [],
                }
                for one in self.results
            ],
            "remarks": list(self.remarks),
        }

    def as_text(self) -> str:
        """Return the table."""
        rounds = max((len(one.timing.seconds) for one in self.results if one.timing), default=0)
        lines = [f"{self.about}; medians of {rounds} interleaved rounds, quartiles", str(self.machine)]
        width = max((len(label(one)) for one in self.results), default=0) + 2
        for one in self.results:
            if one.timing is None:
                lines.append(f"  {label(one):{width}}{one.error}")
                continue
            low, high = one.timing.spread
            parts = [f"{milliseconds(one.timing.median)} ms ({milliseconds(low).strip()}–{milliseconds(high).strip()})"]
            if self.tokens:
                parts.append(f"{self.tokens / one.timing.median:9,.0f} tokens/s")
            if one.peak_bytes:
                parts.append(f"{one.peak_bytes / 1e6:6,.0f} MB")
            ratio = self.ratio(one)
            if one.timing is not self.first and ratio is not None:
                parts.append(f"{self.results[0].name} is {ratio:.2f}× as fast")
            lines.append(f"  {label(one):{width}}" + "   ".join(parts))
        lines += [self.describe_limit(limit) for limit in self.limits]
        return "\n".join([*lines, *self.remarks])

    def describe_limit(self, limit: Limit) -> str:
        """Say how far ours is from a limit."""
        taken = f"; {self.results[0].name} takes {self.first.median / limit.seconds:,.1f}×" if self.first else ""
        return f"  limit: {limit.name} {milliseconds(limit.seconds).strip()} ms{taken}"


def label(result: Result) -> str:
    """Return the name of a contender with its setting."""
    return f"{result.name} ({result.setting})" if result.setting else result.name


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with a decimal for short ones."""
    return f"{seconds * 1e3:9,.2f}" if seconds < 0.01 else f"{seconds * 1e3:9,.1f}"
