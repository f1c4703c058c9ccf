"""Reporters: how a run shows messages, warnings, progress and scores. They know no model and no file.

    TerminalReporter   a progress bar, the latest sample below it, messages above
    PlainReporter      one line per message, for logs and pipes
    SilentReporter     keeps everything and shows nothing, for Python and tests

A closed terminal does not end a run: its output is dropped.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from sightline.training.eta import ETA, Clock
from sightline.training.formatting import Sample, escape_control, format_validation, format_values
from sightline.training.safe_stream import SafeStream, Stream
from sightline.training.state import Metric
from sightline.training.terminal import TerminalReporter

__all__ = ["PlainReporter", "Reporter", "Sample", "SilentReporter", "TerminalReporter", "reporter_for"]


@runtime_checkable
class Reporter(Protocol):
    """Receives the messages and progress of a run. `end` is always called, even after an error, possibly twice."""

    def info(self, text: str) -> None:
        """Report a message."""

    def warn(self, text: str) -> None:
        """Report a warning."""

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Begin to report progress, from `step` to the last step, if that is known."""

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Report an update."""

    def log(self, record: Mapping[str, Metric]) -> None:
        """Report the means over the latest updates."""

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Report scores on the validation set and sample outputs."""

    def end(self) -> None:
        """Stop reporting progress."""


class SilentReporter:
    """Shows nothing and keeps everything."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.warnings: list[str] = []
        self.records: list[dict[str, Metric]] = []
        self.validations: list[dict[str, Metric]] = []
        self.samples: list[Sample] = []
        self.steps: list[int] = []

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
    ) -> None:
        """Keep the number of the step."""
        self.steps.append(step)

    def log(self, record: Mapping[str, Metric]) -> None:
        """Keep a record."""
        self.records.append(dict(record))

    def log_validation(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Keep a record, and the latest samples."""
        self.validations.append(dict(record))
        self.samples = list(samples)

    def end(self) -> None:
        """Do nothing."""


class PlainReporter:
    """Writes one line per message."""

    def __init__(self, stream: Stream, *, clock: Clock = time.monotonic) -> None:
        self.stream = SafeStream(stream)
        self.eta = ETA(clock)

    def info(self, text: str) -> None:
        """Write a message."""
        self._write(escape_control(text))

    def warn(self, text: str) -> None:
        """Write a warning."""
        self._write(f"warning: {escape_control(text)}")

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Start the clock."""
        self.eta.begin(total_steps=total_steps, step=step)

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Write nothing: one line per update would be too many."""

    def log(self, record: Mapping[str, Metric]) -> None:
        """Write a line such as "step 1,200  epoch 3.4  loss 2.131  lr 1.2e-03  3,410 tokens/s  12 min left"."""
        self._write("  ".join([*format_values(record), *self.eta.format_remaining(int(record.get("step") or 0))]))

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


def reporter_for(stream: Stream | None) -> Reporter:
    """Return the reporter for a stream: a terminal, any other stream, or none."""
    if stream is None:  # a program without a console has no stderr
        return SilentReporter()
    drawable = SafeStream(stream).isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return TerminalReporter(stream) if drawable else PlainReporter(stream)
