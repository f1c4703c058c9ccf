"""A run on a terminal: a bar that moves, the latest numbers and the latest sample beneath it, facts above."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

from sightline.training.pace import Clock, Pace
from sightline.training.screen import Screen, Stream
from sightline.training.state import Metric
from sightline.training.wording import Sample, shown_values, validation_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

REDRAWS_PER_SECOND = 8


class TerminalReporter:
    """Draws with rich.

    Nothing runs in the background and the cursor is never hidden, so that the terminal is in order even after a process
    that could not say `end`.
    """

    def __init__(self, stream: Stream, *, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        screen = cast("TextIO", Screen(stream))
        self.console = Console(file=screen, force_terminal=True, highlight=False, markup=False, emoji=False)
        self.live = Live(console=self.console, auto_refresh=False, redirect_stdout=False)
        self.pace = Pace(clock)
        self.values: dict[str, Metric] = {}
        self.sample: Sample | None = None
        self.drawn = -math.inf

    def say(self, text: str) -> None:
        """Print a fact above the bar."""
        self._print(visible(text))

    def warn(self, text: str) -> None:
        """Print a warning above the bar."""
        self._print(f"warning: {visible(text)}", style="yellow")

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Draw the bar."""
        self.pace.begin(total_steps=total_steps, step=step)
        self.values = {"step": step}
        self.live.start()
        self.console.show_cursor(True)
        self._draw()

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Move the bar, unless it has just been drawn."""
        rates: dict[str, Metric] = {"learning_rate": learning_rate, "tokens_per_second": tokens_per_second}
        self.values |= {"step": step, "loss": loss, **rates}
        if self.pace.clock() - self.drawn >= 1 / REDRAWS_PER_SECOND:
            self._draw()

    def log(self, record: Mapping[str, Metric]) -> None:
        """Note the epoch; the rest is beside the bar already."""
        self.values |= {"epoch": record.get("epoch", self.values.get("epoch"))}

    def validated(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Print the scores above the bar, and show the first sample beneath it."""
        self._print(validation_line(record))
        self.sample = samples[0] if samples else self.sample
        self._draw()

    def end(self) -> None:
        """Draw the bar a last time and leave it there."""
        self._draw()
        self.live.stop()

    def picture(self) -> "RenderableType":
        """Return what stands beneath the facts, as rich draws it."""
        from rich.console import Group

        return Group(*self._bar(), *self._lines())

    def _bar(self) -> Iterator["RenderableType"]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        step, total = int(self.values["step"] or 0), self.pace.total_steps
        if total:
            bar = Table.grid(padding=(0, 2), expand=True)
            bar.add_column(ratio=1)
            bar.add_column(no_wrap=True)
            text = "  ".join([f"{step:,} of {total:,}", *self.pace.left(step)])
            bar.add_row(ProgressBar(total=total, completed=min(step, total)), text)
            yield bar

    def _lines(self) -> Iterator["RenderableType"]:
        from rich.text import Text

        shown = {name: value for name, value in self.values.items() if name != "step" or not self.pace.total_steps}
        yield Text("  ".join(shown_values(shown)), no_wrap=True, overflow="ellipsis")
        for label, text in self.sample.parts() if self.sample else ():
            yield Text.assemble((f"{label:<9}  ", "dim"), text, no_wrap=True, overflow="ellipsis")

    def _print(self, text: str, *, style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)

    def _draw(self) -> None:
        if self.live.is_started:
            self.live.update(self.picture(), refresh=True)
        self.drawn = self.pace.clock()
