"""Reporters: how a run shows messages, warnings, progress, metrics and samples. They know no model and no file.

There is one for every kind of stream:

    TerminalReporter   a progress bar, the latest sample below it, messages above
    PlainReporter      one line per message, for logs and pipes
    SilentReporter     keeps everything and shows nothing, for Python and tests
"""

import io
import math
import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO, cast, runtime_checkable

from sightline.training.state import Metric

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Sample:
    """One output of the model with its source and reference, either of which may be empty."""

    source: str
    output: str
    reference: str

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the labels and texts to show, without empty ones."""
        if self.source:
            yield "source", shorten(escape_control(self.source))
        yield "output", shorten(escape_control(self.output)) or "(empty)"
        if self.reference:
            yield "reference", shorten(escape_control(self.reference))


@runtime_checkable
class Reporter(Protocol):
    """Receives the messages and progress of a run. `end` is always called, even after an error, possibly twice."""

    def info(self, text: str) -> None:
        """Report a message."""

    def warn(self, text: str) -> None:
        """Report a warning."""

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Begin to report progress, from `step` to the last step, if that is known."""

    def tick(
        self,
        step: int,
        *,
        loss: float | int,
        tokens_per_second: float | int,
        learning_rate: float | int,
        total_steps: int | None = None,
        seconds_left: float | int | None = None,
    ) -> None:
        """Report an update, and what is known of the end of the run."""

    def log(self, record: Mapping[str, Metric]) -> None:
        """Report the means over the latest updates."""

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Report scores on the validation set and sample outputs."""

    def end(self) -> None:
        """Stop reporting progress."""


@runtime_checkable
class Stream(Protocol):
    """What is needed of a stream: `sys.stderr` and every text file have it."""

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Flush the stream."""

    def isatty(self) -> bool:
        """Tell whether this is a terminal."""


def reporter_for(stream: Stream | None) -> Reporter:
    """Return the reporter for a stream: a terminal, any other stream, or none."""
    if stream is None:  # a program without a console has no stderr
        return SilentReporter()
    drawable = SafeStream(stream).isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return TerminalReporter(stream) if drawable else PlainReporter(stream)


class SilentReporter:
    """Shows nothing and keeps everything."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.warnings: list[str] = []
        self.records: list[dict[str, Metric]] = []
        self.validations: list[dict[str, Metric]] = []
        self.samples: list[Sample] = []
        self.steps: list[int] = []
        self.total_steps: int | None = None

    def info(self, text: str) -> None:
        """Keep a message."""
        self.messages.append(text)

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Do nothing."""

    def tick(
        self,
        step: int,
        *,
        loss: float | int,  # noqa: ARG002 - the records have it
        tokens_per_second: float | int,  # noqa: ARG002
        learning_rate: float | int,  # noqa: ARG002
        total_steps: int | None = None,
        seconds_left: float | int | None = None,  # noqa: ARG002
    ) -> None:
        """Keep the number of the step, and of the last one."""
        self.steps.append(step)
        self.total_steps = total_steps

    def log(self, record: Mapping[str, Metric]) -> None:
        """Keep a record."""
        self.records.append(dict(record))

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Keep a record, and the latest samples."""
        self.validations.append(dict(record))
        self.samples = list(samples)

    def end(self) -> None:
        """Do nothing."""


Clock = Callable[[], float]


class PlainReporter:
    """Writes one line per message."""

    def __init__(self, stream: Stream) -> None:
        self.stream = SafeStream(stream)
        self.seconds_left: float | int | None = None

    def info(self, text: str) -> None:
        """Write a message."""
        self._write(escape_control(text))

    def warn(self, text: str) -> None:
        """Write a warning."""
        self._write(f"warning: {escape_control(text)}")

    def begin(self, *, total_steps: int | None, step: int) -> None:  # noqa: ARG002
        """Forget what an earlier run had left."""
        self.seconds_left = None

    def tick(
        self,
        step: int,  # noqa: ARG002 - a line per update would be too many
        *,
        loss: float | int,  # noqa: ARG002
        tokens_per_second: float | int,  # noqa: ARG002
        learning_rate: float | int,  # noqa: ARG002
        total_steps: int | None = None,  # noqa: ARG002
        seconds_left: float | int | None = None,
    ) -> None:
        """Keep the remaining time for the next line."""
        self.seconds_left = seconds_left

    def log(self, record: Mapping[str, Metric]) -> None:
        """Write a line such as "step 1,200  epoch 3.4  loss 2.131  lr 1.2e-03  3,410 tokens/s  12 min left"."""
        self._write("  ".join([*format_values(record), *format_remaining(self.seconds_left)]))

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Write a line of scores and the samples."""
        self._write(format_validation(record))
        for sample in samples:
            for label, text in sample.parts():
                self._write(f"    {label:<9}  {text}")

    def end(self) -> None:
        """Do nothing: every line is written already."""

    def _write(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()


REDRAWS_PER_SECOND = 8


class TerminalReporter:
    """Draws with rich: messages, a progress bar, and below it the latest metrics and sample.

    Nothing runs in the background and the cursor is never hidden, so that even a killed process leaves the terminal in
    order.
    """

    def __init__(self, stream: Stream, *, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.live import Live

        safe_stream = cast("TextIO", SafeStream(stream))
        self.console = Console(file=safe_stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self.live = Live(console=self.console, auto_refresh=False, redirect_stdout=False)
        self.clock = clock
        self.total_steps: int | None = None
        self.seconds_left: float | int | None = None
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
        self.total_steps, self.seconds_left = total_steps, None
        self.values = {"step": step}
        self.live.start()
        self.console.show_cursor(True)
        self._draw()

    def tick(
        self,
        step: int,
        *,
        loss: float | int,
        tokens_per_second: float | int,
        learning_rate: float | int,
        total_steps: int | None = None,
        seconds_left: float | int | None = None,
    ) -> None:
        """Redraw the bar, unless it was drawn a moment ago."""
        self.total_steps, self.seconds_left = total_steps, seconds_left
        rates: dict[str, Metric] = {"learning_rate": learning_rate, "tokens_per_second": tokens_per_second}
        self.values |= {"step": step, "loss": loss, **rates}
        if self.clock() - self.last_draw >= 1 / REDRAWS_PER_SECOND:
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

        step, total = int(self.values["step"] or 0), self.total_steps
        if total:
            bar = Table.grid(padding=(0, 2), expand=True)
            bar.add_column(ratio=1)
            bar.add_column(no_wrap=True)
            text = "  ".join([f"{step:,} of {total:,}", *format_remaining(self.seconds_left)])
            bar.add_row(ProgressBar(total=total, completed=min(step, total)), text)
            yield bar

    def _lines(self) -> Iterator["RenderableType"]:
        from rich.text import Text

        shown = {name: value for name, value in self.values.items() if name != "step" or not self.total_steps}
        yield Text("  ".join(format_values(shown)), no_wrap=True, overflow="ellipsis")
        for label, text in self.sample.parts() if self.sample else ():
            yield Text.assemble((f"{label:<9}  ", "dim"), text, no_wrap=True, overflow="ellipsis")

    def _print(self, text: str, *, style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=True)

    def _draw(self) -> None:
        if self.live.is_started:
            self.live.update(self.render(), refresh=True)
        self.last_draw = self.clock()


class SafeStream(io.TextIOBase):
    """Forwards text to another stream; characters that its encoding lacks are escaped.

    Write errors are ignored, since a closed terminal or pipe must not end a run.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed annotates an attribute
        """Encoding of the other stream."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Tell whether the other stream is an open terminal."""
        return not self.stream.closed and self.stream.isatty()

    def write(self, text: str) -> int:
        """Write, or drop the text if the other end is closed."""
        with suppress(OSError, ValueError):  # a stream that Python itself has closed raises a ValueError
            self.stream.write(text.encode(self.encoding, errors="backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError, ValueError):
            self.stream.flush()


METRIC_FORMATS: dict[str, str] = {
    "step": "step {:,}",
    "epoch": "epoch {:.1f}",
    "loss": "loss {:.3f}",
    "learning_rate": "lr {:.1e}",
    "tokens_per_second": "{:,.0f} tokens/s",
}
"""The common metrics, in the order shown, before all others."""

HIDDEN_METRICS = ("seconds", "tokens", "gradient_norm")
"""Metrics that are stored but not shown."""

VALIDATION_PREFIX = "validation_"
"""Prefix of validation metrics that also exist for training: the loss."""


def format_values(record: Mapping[str, Metric]) -> list[str]:
    """Format the metrics of a record: the common ones first, then the others by name."""
    common = [name for name in METRIC_FORMATS if name in record]
    others = [name for name in record if name not in METRIC_FORMATS and name not in HIDDEN_METRICS]
    shown = [name for name in (*common, *others) if record[name] is not None]
    return [format_value(name, record[name]) for name in shown if record[name] or name != "skipped"]


def format_value(name: str, value: Metric) -> str:
    """Format one metric with its name."""
    if name in METRIC_FORMATS and not isinstance(value, str):
        return METRIC_FORMATS[name].format(value)
    if isinstance(value, float):
        text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:,.3g}"
    else:
        text = f"{value:,}" if isinstance(value, int) else shorten(escape_control(str(value)))
    return f"{escape_control(name).replace('_', ' ')} {text}"


def format_validation(record: Mapping[str, Metric]) -> str:
    """Format the scores of a validation, the step first."""
    step = {name: value for name, value in record.items() if name == "step"}
    scores = {name.removeprefix(VALIDATION_PREFIX): value for name, value in record.items() if name != "step"}
    return "  ".join([*format_values(step), "validation", *format_values(scores)])


DURATION_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def format_duration(seconds: float | int) -> str:
    """Format a time ("2 min 40 s", "12 min") with no more precision than an estimate has."""
    whole = max(1, round(seconds))
    at = next(index for index, (_, size) in enumerate(DURATION_UNITS) if whole >= size)
    name, size = DURATION_UNITS[at]
    count, rest = divmod(whole, size)
    finer, finer_size = DURATION_UNITS[min(at + 1, len(DURATION_UNITS) - 1)]
    fine = rest // finer_size if count < 10 else 0
    return f"{count} {name} {fine} {finer}" if fine else f"{count} {name}"


def format_remaining(seconds: float | int | None) -> list[str]:
    """Return the remaining time as text, or nothing if it is not known."""
    return [] if seconds is None else [f"{format_duration(seconds)} left"]


MAX_SAMPLE_CHARACTERS = 300
"""Longer samples and texts are cut."""


def shorten(text: str) -> str:
    """Cut a long text."""
    return text if len(text) <= MAX_SAMPLE_CHARACTERS else f"{text[: MAX_SAMPLE_CHARACTERS - 2]} …"


def escape_control(text: str) -> str:
    r"""Escape characters that are invisible or control a terminal: \n, \x1b, \u202e.

    Everything else in texts from models and corpora is shown as it is.
    """
    return "".join(c if is_displayable(c) else c.encode("unicode_escape").decode("ascii") for c in text)


JOINERS = "\u200c\u200d"
"""Invisible, but Persian, Hindi and some emoji need them."""


def is_displayable(character: str) -> bool:
    """Tell whether a character can be shown as it is: French needs narrow spaces, Persian its joiners."""
    return character.isprintable() or character in JOINERS or unicodedata.category(character) == "Zs"
