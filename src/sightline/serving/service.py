"""The service: models, scheduler, API and middleware, assembled into the application that `sightline serve` runs."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter

from sightline.pipelines import Pipeline
from sightline.serving.api.libretranslate import router as libretranslate_router
from sightline.serving.api.openai_generation import chat_router, completions_router
from sightline.serving.api.openai_models import embeddings_router, models_router
from sightline.serving.api.submit import LoadedModels, Submitter
from sightline.serving.api.tasks import router as tasks_router
from sightline.serving.api.trace import router as trace_router
from sightline.serving.http.app import Application, create_app
from sightline.serving.http.metrics import Metrics
from sightline.serving.http.settings import ServingSettings
from sightline.serving.scheduling.scheduler import Scheduler

ROUTERS = (
    models_router,
    completions_router,
    chat_router,
    embeddings_router,
    libretranslate_router,
    tasks_router,
    trace_router,
)
"""The routers of the API, each made for one submitter."""


def service(
    models: Mapping[str, Pipeline],
    settings: ServingSettings,
    *,
    more_routers: Callable[[Submitter], Iterable[APIRouter]] = lambda _: (),
    public_paths: Iterable[str] = (),
    threads: int | None = None,
) -> Application:
    """Return the application that serves these models; its scheduler runs while the app is served."""
    limits = settings.limits
    scheduler = Scheduler(max_batch_size=limits.batch_size, max_waiting=limits.queue, threads=threads)
    metrics = Metrics()
    add_scheduler_metrics(scheduler, metrics)

    @asynccontextmanager
    async def run_scheduler(_app: Any) -> AsyncIterator[None]:
        scheduler.start()
        try:
            yield
        finally:
            scheduler.stop()

    submitter = Submitter(LoadedModels(models), scheduler, limits)
    app = create_app(
        settings,
        routers=[*(router(submitter) for router in ROUTERS), *more_routers(submitter)],
        public_paths=public_paths,
        metrics=metrics,
        lifespan=run_scheduler,
        check_capacity=submitter.check_capacity,
    )
    app.state.submitter = submitter
    return app


def add_scheduler_metrics(scheduler: Scheduler, metrics: Metrics) -> None:
    """Add the scheduler's metrics."""
    gauges = {
        "sightline_waiting_requests": ("Requests waiting for a model.", lambda: scheduler.n_waiting),
        "sightline_rows": ("Batch rows in use.", lambda: scheduler.counts.rows),
        "sightline_steps": ("Model steps taken.", lambda: scheduler.counts.steps),
        "sightline_tokens_written": ("Tokens generated.", lambda: scheduler.counts.tokens),
        "sightline_busy_seconds": ("Time models have computed.", lambda: scheduler.counts.busy_seconds),
    }
    for name, (description, read) in gauges.items():
        metrics.callback_gauge(name, description, read)
