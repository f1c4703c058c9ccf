"""Monitoring: metrics in Prometheus' text format, the server's lifecycle, and /health, /ready and /metrics."""

import asyncio
import bisect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from starlette.responses import Response

from sightline.serving.http.problem import Problem
from sightline.serving.http.routing import Router

DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of a histogram's buckets, in seconds."""
MAX_SERIES = 1_000
"""Combinations of labels that a metric keeps apart."""

Labels = tuple[str, ...]
Kind = TypeVar("Kind", bound="Metric")


class Metric:
    """One metric, with a value for every combination of its labels; thread-safe.

    Label values must come from a small set (a route, a status), never from a client: after `MAX_SERIES`
    combinations further ones are counted together, under the label "other".
    """

    kind = "untyped"

    def __init__(self, name: str, description: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.description = description
        self.labels = tuple(labels)
        self.lock = threading.Lock()
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def series(self, given: dict[str, str]) -> Labels:
        """Return the label values, in order."""
        if set(given) != set(self.labels):
            raise ValueError(f"{self.name} has the labels {', '.join(self.labels) or '(none)'}")
        values = tuple(given[label] for label in self.labels)
        return values if values in self.values or len(self.values) < MAX_SERIES else ("other",) * len(values)

    def lines(self) -> list[str]:
        """Return the metric as lines of text."""
        with self.lock:
            return [self.line("", labels, value) for labels, value in self.values.items()]

    def line(self, suffix: str, labels: Labels, value: int | float, **more: str) -> str:
        """Return one line of the text."""
        pairs = [*zip(self.labels, labels, strict=True), *more.items()]
        shown = ",".join(f'{name}="{escape_label(text)}"' for name, text in pairs)
        return f"{self.name}{suffix}{{{shown}}} {value:.15g}" if shown else f"{self.name}{suffix} {value:.15g}"


class Counter(Metric):
    """A value that only increases."""

    kind = "counter"

    def add(self, amount: int | float = 1, **labels: str) -> None:
        """Increase the value."""
        with self.lock:
            series = self.series(labels)
            self.values[series] = self.values.get(series, 0.0) + amount


class Gauge(Metric):
    """A value that rises and falls."""

    kind = "gauge"

    def set(self, value: int | float, **labels: str) -> None:
        """Set the value."""
        with self.lock:
            self.values[self.series(labels)] = float(value)

    def add(self, amount: int | float, **labels: str) -> None:
        """Raise or lower the value."""
        with self.lock:
            series = self.series(labels)
            self.values[series] = self.values.get(series, 0.0) + amount


class CallbackGauge(Metric):
    """A gauge whose value is computed when it is read."""

    kind = "gauge"

    def __init__(self, name: str, description: str, read: Callable[[], int | float]) -> None:
        super().__init__(name, description)
        self.read = read

    def lines(self) -> list[str]:
        """Return the current value."""
        return [self.line("", (), self.read())]


class Histogram(Metric):
    """Counts of observations by size, in cumulative buckets."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float] = DURATION_BOUNDS,
    ) -> None:
        super().__init__(name, description, labels)
        self.bounds = tuple(bounds)
        self.counts: dict[Labels, list[int]] = {} if labels else {(): [0] * (len(self.bounds) + 1)}

    def observe(self, value: int | float, **labels: str) -> None:
        """Add one observation."""
        with self.lock:
            series = self.series(labels)
            counts = self.counts.setdefault(series, [0] * (len(self.bounds) + 1))
            counts[bisect.bisect_left(self.bounds, value)] += 1
            self.values[series] = self.values.get(series, 0.0) + value

    def lines(self) -> list[str]:
        """Return the buckets, the sum and the count."""
        lines = []
        with self.lock:
            for labels, counts in self.counts.items():
                total = 0
                for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                    total += count
                    shown = "+Inf" if bound == float("inf") else f"{bound:g}"
                    lines.append(self.line("_bucket", labels, total, le=shown))
                lines.append(self.line("_sum", labels, self.values.get(labels, 0.0)))
                lines.append(self.line("_count", labels, total))
        return lines


class Metrics:
    """The metrics of one server. The same name always gives the same metric."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Counter:
        """Return the counter of this name, which by convention ends in `_total`."""
        return self.get_or_add(Counter(name, description, labels), Counter)

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Gauge:
        """Return the gauge of this name."""
        return self.get_or_add(Gauge(name, description, labels), Gauge)

    def callback_gauge(self, name: str, description: str, read: Callable[[], int | float]) -> CallbackGauge:
        """Return the gauge of this name whose value is what `read` returns."""
        return self.get_or_add(CallbackGauge(name, description, read), CallbackGauge)

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        bounds: Sequence[float] = DURATION_BOUNDS,
    ) -> Histogram:
        """Return the histogram of this name."""
        return self.get_or_add(Histogram(name, description, labels, bounds=bounds), Histogram)

    def get_or_add(self, metric: Kind, kind: type[Kind]) -> Kind:
        """Return the metric that has this name already, or add this one."""
        found = self.metrics.setdefault(metric.name, metric)
        if not isinstance(found, kind) or found.labels != metric.labels:
            raise ValueError(f"metric {metric.name} exists already, with another type or other labels")
        return found

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        lines = []
        for metric in self.metrics.values():
            lines += [
                f"# HELP {metric.name} {metric.description}",
                f"# TYPE {metric.name} {metric.kind}",
                *metric.lines(),
            ]
        return "\n".join(lines) + "\n"


def escape_label(text: str) -> str:
    """Escape a label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Lifecycle:
    """The state that `/ready` reports, and the requests that a shutdown waits for."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.loaded = loaded
        """Whether the models are loaded."""
        self.stopping = False
        """Whether the server was asked to stop: new requests are refused."""
        self.expired = False
        """Whether the shutdown timeout is over too: running requests are cancelled."""
        self.working: set[asyncio.Task[object]] = set()

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self.loaded and not self.stopping

    @contextmanager
    def track(self) -> Iterator[None]:
        """Add the current task to those that a shutdown waits for."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request must be handled by an asyncio task")
        self.working.add(task)
        try:
            yield
        finally:
            self.working.discard(task)

    def expire(self) -> None:
        """Cancel the requests that have not finished in time."""
        self.expired = True
        for task in self.working:
            task.cancel()


class MetricsResponse(Response):
    """Metrics in Prometheus' text format."""

    media_type = "text/plain; version=0.0.4; charset=utf-8"


def health_router(lifecycle: Lifecycle, metrics: Metrics) -> Router:
    """Return `/health`, `/ready` and `/metrics`."""
    router = Router(tags=["health"])

    @router.get("/health")
    async def health() -> dict[str, str]:
        """Report that the server is alive."""
        return {"status": "ok"}

    @router.get("/ready")
    async def ready() -> dict[str, str]:
        """Report whether requests are accepted: not while models are loading, nor while the server shuts down."""
        if not lifecycle.ready:
            state = "stopping" if lifecycle.stopping else "loading"
            raise Problem(503, f"the server is {state}", code=state, retry_after=5)
        return {"status": "ready"}

    @router.get("/metrics", response_class=MetricsResponse)
    async def read_metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return MetricsResponse(metrics.text())

    return router
