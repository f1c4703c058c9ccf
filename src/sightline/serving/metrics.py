"""Figures about the server in the text format that Prometheus reads: counters, gauges and histograms."""

import bisect
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
MOST_SERIES = 1_000
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Kind = TypeVar("Kind", bound="Metric")


class Metric:
    """One named figure, for every combination of its labels; safe to change from any thread.

    Label values must come from a small set (a route, a status), never from a client: after a thousand combinations
    further ones are counted together, under the label "other".
    """

    kind = "untyped"

    def __init__(self, name: str, meaning: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self.lock = threading.Lock()
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def series(self, given: dict[str, str]) -> Labels:
        """Return the combination of label values, in order."""
        if set(given) != set(self.labels):
            raise ValueError(f"{self.name} has the labels {', '.join(self.labels) or '(none)'}")
        values = tuple(given[label] for label in self.labels)
        return values if values in self.values or len(self.values) < MOST_SERIES else ("other",) * len(values)

    def lines(self) -> list[str]:
        """Return the figure as text."""
        with self.lock:
            return [self.line("", labels, value) for labels, value in self.values.items()]

    def line(self, suffix: str, labels: Labels, value: int | float, **more: str) -> str:
        """Return one line of the text."""
        pairs = [*zip(self.labels, labels, strict=True), *more.items()]
        told = ",".join(f'{name}="{escaped(text)}"' for name, text in pairs)
        return f"{self.name}{suffix}{{{told}}} {value:.15g}" if told else f"{self.name}{suffix} {value:.15g}"


class Counter(Metric):
    """A count that only grows."""

    kind = "counter"

    def add(self, amount: int | float = 1, **labels: str) -> None:
        """Count."""
        with self.lock:
            series = self.series(labels)
            self.values[series] = self.values.get(series, 0.0) + amount


class Gauge(Metric):
    """A level that rises and falls."""

    kind = "gauge"

    def set(self, value: int | float, **labels: str) -> None:
        """Note the level."""
        with self.lock:
            self.values[self.series(labels)] = float(value)

    def add(self, amount: int | float, **labels: str) -> None:
        """Raise or lower the level."""
        with self.lock:
            series = self.series(labels)
            self.values[series] = self.values.get(series, 0.0) + amount


class Asked(Metric):
    """A level that is looked up whenever somebody asks for it."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, ask: Callable[[], int | float]) -> None:
        super().__init__(name, meaning)
        self.ask = ask

    def lines(self) -> list[str]:
        """Return the level of this moment."""
        return [self.line("", (), self.ask())]


class Histogram(Metric):
    """How many of the things measured were at most how large."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> None:
        super().__init__(name, meaning, labels)
        self.bounds = tuple(bounds)
        self.counts: dict[Labels, list[int]] = {} if labels else {(): [0] * (len(self.bounds) + 1)}

    def observe(self, value: int | float, **labels: str) -> None:
        """Note one measurement."""
        with self.lock:
            series = self.series(labels)
            counts = self.counts.setdefault(series, [0] * (len(self.bounds) + 1))
            counts[bisect.bisect_left(self.bounds, value)] += 1
            self.values[series] = self.values.get(series, 0.0) + value

    def lines(self) -> list[str]:
        """Return the steps, the sum and the count."""
        lines = []
        with self.lock:
            for labels, counts in self.counts.items():
                total = 0
                for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                    total += count
                    told = "+Inf" if bound == float("inf") else f"{bound:g}"
                    lines.append(self.line("_bucket", labels, total, le=told))
                lines.append(self.line("_sum", labels, self.values.get(labels, 0.0)))
                lines.append(self.line("_count", labels, total))
        return lines


class Metrics:
    """The figures of one server. Ask for a figure by name; the same name gives the same figure."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Counter:
        """Return the counter of this name; by custom it ends in `_total`."""
        return self.known(Counter(name, meaning, labels), Counter)

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
        """Return the gauge of this name."""
        return self.known(Gauge(name, meaning, labels), Gauge)

    def asked(self, name: str, meaning: str, ask: Callable[[], int | float]) -> Asked:
        """Return the gauge whose level is what `ask` returns whenever it is looked at."""
        return self.known(Asked(name, meaning, ask), Asked)

    def histogram(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> Histogram:
        """Return the histogram of this name."""
        return self.known(Histogram(name, meaning, labels, bounds=bounds), Histogram)

    def known(self, metric: Kind, kind: type[Kind]) -> Kind:
        """Return the figure that has this name already, or this one."""
        found = self.metrics.setdefault(metric.name, metric)
        if not isinstance(found, kind) or found.labels != metric.labels:
            raise ValueError(f"the figure {metric.name} is there already, as another kind or with other labels")
        return found

    def text(self) -> str:
        """Return all figures for Prometheus."""
        lines = []
        for metric in self.metrics.values():
            lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a label's value as the format wants it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
