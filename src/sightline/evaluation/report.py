"""What an evaluation found: values by name, for people and for programs."""

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = float | int | str


@dataclass(frozen=True)
class Report:
    """Values by name, ready for JSON."""

    values: dict[str, Value]

    def lines(self) -> list[str]:
        """Return the values for people, a line each."""
        width = max(map(len, self.values), default=0)
        return [f"{name.replace('_', ' '):<{width}}  {in_words(value)}" for name, value in self.values.items()]


def in_words(value: Value) -> str:
    """Write a value as a person would: two places after the point, more where two would hide it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if abs(value) >= 1 or value == 0 else f"{value:.4g}"
