"""Progress on a terminal: messages, a progress bar, and below it the latest metrics and sample."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

from sightline.training.eta import ETA, Clock
from sightline.training.formatting import Sample, escape_control, format_validation, format_values
from sightline.training.safe_stream import SafeStream, Stream
from sightline.training.state import Metric

if TYPE_CHECKING:
    from rich.console import RenderableType

REDRAWS_PER_SECOND = 8


class TerminalReporter:
    """Draws with rich.

    Nothing runs in the background and the cursor is never hidden, so that even a killed process leaves the terminal in
    order.
    """

    def __init__(self, stream: Stream, *, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        safe_stream = cast("TextIO", SafeStream(stream))
        self.console = Console(file=safe_stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self.live = Live(console=self.console, auto_refresh=False, redirect_stdout=False)
        self.eta = ETA(clock)
        self.values: dict[str, Metric] = {}
        self.sample: Sample | None = None
        self.last_draw = -math.inf

    def info(self, text: str) -> None:
        """Print a message above the bar."""
        self._print(escape_control(text))

    def warn(self, text: str) -> None:
        """Print a warning above the bar."""
        self._print(f"warning: {escape_control(text)}", style="yellow")

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Draw the bar."""
        self.eta.begin(total_steps=total_steps, step=step)
        self.values = {"step": step}
        self.live.start()
        self.console.show_cursor(True)
        self._draw()

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Redraw the bar, unless it was drawn a moment ago."""
        rates: dict[str, Metric] = {"learning_rate": learning_rate, "tokens_per_second": tokens_per_second}
        self.values |= {"step": step, "loss": loss, **rates}
        if self.eta.clock() - self.last_draw >= 1 / REDRAWS_PER_SECOND:
            self._draw()

    def log(self, record: Mapping[str, Metric]) -> None:
        """Take the epoch; the other metrics are shown already."""
        self.values |= {"epoch": record.get("epoch", self.values.get("epoch"))}

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Print the scores above the bar and show the first sample below it."""
        self._print(format_validation(record))
        self.sample = samples[0] if samples else self.sample
        self._draw()

    def end(self) -> None:
        """Draw the bar one last time and leave it there."""
        self._draw()
        self.live.stop()

    def render(self) -> "RenderableType":
        """Return the bar, the metrics and the sample as rich draws them."""
        from rich.console import Group

        return Group(*self._bar(), *self._lines())

    def _bar(self) -> Iterator["RenderableType"]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        step, total = int(self.values["step"] or 0), self.eta.total_steps
        if total:
            bar = Table.grid(padding=(0, 2), expand=True)
            bar.add_column(ratio=1)
            bar.add_column(no_wrap=True)
            text = "  ".join([f"{step:,} of {total:,}", *self.eta.format_remaining(step)])
            bar.add_row(ProgressBar(total=total, completed=min(step, total)), text)
            yield bar

    def _lines(self) -> Iterator["RenderableType"]:
        from rich.text import Text

        shown = {name: value for name, value in self.values.items() if name != "step" or not self.eta.total_steps}
        yield Text("  ".join(format_values(shown)), no_wrap=True, overflow="ellipsis")
        for label, text in self.sample.parts() if self.sample else ():
            yield Text.assemble((f"{label:<9}  ", "dim"), text, no_wrap=True, overflow="ellipsis")

    def _print(self, text: str, *, style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)

    def _draw(self) -> None:
        if self.live.is_started:
            self.live.update(self.render(), refresh=True)
        self.last_draw = self.eta.clock()
