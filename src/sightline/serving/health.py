"""Endpoints for monitoring: health, readiness and metrics."""

from starlette.responses import Response

from sightline.serving.lifecycle import Lifecycle
from sightline.serving.metrics import CONTENT_TYPE, Metrics
from sightline.serving.problem import Problem
from sightline.serving.route import Router


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


class MetricsResponse(Response):
    """Metrics as text."""

    media_type = CONTENT_TYPE
