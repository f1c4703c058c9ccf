"""The result of an evaluation: values by name, for people and for programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sightline.storage import ESCAPES, write_file

Value: TypeAlias = float | int | str


@dataclass(frozen=True)
class Report:
    """Values by name, ready for JSON."""

    values: dict[str, Value]
    outputs: tuple[str, ...] = ()
    """What the model gave for each example, in order; empty where nothing is generated or predicted."""

    def lines(self) -> list[str]:
        """Format the values for people, one per line."""
        width = max(map(len, self.values), default=0)
        return [f"{name.replace('_', ' '):<{width}}  {format_value(value)}" for name, value in self.values.items()]

    def write_outputs(self, path: Path) -> None:
        r"""Write the outputs to a file, one per line, with their line breaks escaped as \n; all of them or none."""
        write_file(path, "".join(f"{text.translate(ESCAPES)}\n" for text in self.outputs))


def format_value(value: Value) -> str:
    """Format a value: two decimals, or four significant digits below 1."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if abs(value) >= 1 or value == 0 else f"{value:.4g}"
