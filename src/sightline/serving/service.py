"""Models, scheduler, interface and guards put together: the application that `sightline serve` runs."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter

from sightline.pipelines import Pipeline
from sightline.serving.api import Desk, Shelf, routers
from sightline.serving.app import Application, create_app
from sightline.serving.metrics import Metrics
from sightline.serving.scheduler import Scheduler
from sightline.serving.settings import ServingSettings


def service(
    models: Mapping[str, Pipeline],
    settings: ServingSettings,
    *,
    more_routers: Callable[[Desk], Iterable[APIRouter]] = lambda _: (),
    public_paths: Iterable[str] = (),
    threads: int | None = None,
) -> Application:
    """Return the application that answers for these models; it works while it is served."""
    limits = settings.limits
    scheduler = Scheduler(most_rows=limits.rows, most_waiting=limits.queue, threads=threads)
    metrics = Metrics()
    count(scheduler, metrics)

    @asynccontextmanager
    async def at_work(_app: Any) -> AsyncIterator[None]:
        scheduler.start()
        try:
            yield
        finally:
            scheduler.stop()

    desk = Desk(Shelf(models), scheduler, limits)
    app = create_app(
        settings,
        routers=[*routers(desk), *more_routers(desk)],
        public_paths=public_paths,
        metrics=metrics,
        lifespan=at_work,
        check_room=desk.check_room,
    )
    app.state.desk = desk
    return app


def count(scheduler: Scheduler, metrics: Metrics) -> None:
    """Let whoever looks at the figures see how the models work."""
    figures = {
        "sightline_waiting_requests": ("Requests that wait for a model.", lambda: scheduler.n_waiting),
        "sightline_rows": ("Texts being written now.", lambda: scheduler.counts.rows),
        "sightline_steps": ("Steps that models have taken.", lambda: scheduler.counts.steps),
        "sightline_tokens_written": ("Tokens that were chosen.", lambda: scheduler.counts.tokens),
        "sightline_busy_seconds": ("Time that models have worked.", lambda: scheduler.counts.busy_seconds),
    }
    for name, (meaning, ask) in figures.items():
        metrics.asked(name, meaning, ask)
