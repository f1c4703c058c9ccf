"""What a run tells a person: facts, warnings, how far it is, how well it does. Knows no model and no file.

    TerminalReporter   a bar that moves, the latest sample beneath it, facts above
    PlainReporter      a line for each fact, for logs and pipes
    SilentReporter     keeps everything and shows nothing, for Python and tests

A screen that is gone must not end a run: what cannot be shown is lost, and the run goes on.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from sightline.training.pace import Clock, Pace
from sightline.training.screen import Screen, Stream
from sightline.training.state import Metric
from sightline.training.terminal import TerminalReporter
from sightline.training.wording import Sample, shown_values, validation_line, visible

__all__ = ["PlainReporter", "Reporter", "Sample", "SilentReporter", "TerminalReporter", "reporter_for"]


@runtime_checkable
class Reporter(Protocol):
    """Whoever a run tells about itself. `end` comes always, after an error too, and may come twice."""

    def say(self, text: str) -> None:
        """Take note of a fact."""

    def warn(self, text: str) -> None:
        """Take note of something that is probably not meant."""

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Expect updates from the one after `step` up to the last, if it is known which that is."""

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Take note of an update."""

    def log(self, record: Mapping[str, Metric]) -> None:
        """Take note of the means over the latest updates."""

    def validated(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Take note of scores on the validation set, and of a few outputs."""

    def end(self) -> None:
        """Stop showing progress."""


class SilentReporter:
    """Shows nothing; what it was told can be looked up."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.warnings: list[str] = []
        self.records: list[dict[str, Metric]] = []
        self.validations: list[dict[str, Metric]] = []
        self.samples: list[Sample] = []
        self.steps: list[int] = []

    def say(self, text: str) -> None:
        """Keep a fact."""
        self.facts.append(text)

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Have nothing to prepare."""

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

    def validated(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Keep a record, and the samples in place of those before."""
        self.validations.append(dict(record))
        self.samples = list(samples)

    def end(self) -> None:
        """Have nothing to stop."""


class PlainReporter:
    """Writes lines."""

    def __init__(self, stream: Stream, *, clock: Clock = time.monotonic) -> None:
        self.screen = Screen(stream)
        self.pace = Pace(clock)

    def say(self, text: str) -> None:
        """Write a fact."""
        self._write(visible(text))

    def warn(self, text: str) -> None:
        """Write a warning."""
        self._write(f"warning: {visible(text)}")

    def begin(self, *, total_steps: int | None, step: int) -> None:
        """Start the clock."""
        self.pace.begin(total_steps=total_steps, step=step)

    def tick(self, step: int, *, loss: float | int, tokens_per_second: float | int, learning_rate: float | int) -> None:
        """Write nothing: a line for each update would be too many."""

    def log(self, record: Mapping[str, Metric]) -> None:
        """Write a line such as "step 1,200  epoch 3.4  loss 2.131  rate 1.2e-03  3,410 tokens/s  12 min left"."""
        self._write("  ".join([*shown_values(record), *self.pace.left(int(record.get("step") or 0))]))

    def validated(self, record: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        """Write a line of scores, and the samples."""
        self._write(validation_line(record))
        for sample in samples:
            for label, text in sample.parts():
                self._write(f"    {label:<9}  {text}")

    def end(self) -> None:
        """Have nothing to stop: every line has been written."""

    def _write(self, text: str) -> None:
        self.screen.write(f"{text}\n")
        self.screen.flush()


def reporter_for(stream: Stream | None) -> Reporter:
    """Return the reporter that suits a stream: a terminal that can be drawn on, any other, or none at all."""
    if stream is None:  # a program without a console has no stderr
        return SilentReporter()
    drawable = Screen(stream).isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return TerminalReporter(stream) if drawable else PlainReporter(stream)
