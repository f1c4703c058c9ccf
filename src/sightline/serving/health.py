"""Whether the server is there, and whether it is ready: for whoever watches over it."""

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
        """Say that the server answers."""
        return {"status": "ok"}

    @router.get("/ready")
    async def ready() -> dict[str, str]:
        """Say whether requests are welcome: not before the models are loaded, nor once the server is stopping."""
        if not lifecycle.ready:
            told = "stopping" if lifecycle.stopping else "loading"
            raise Problem(503, f"the server is {told}", code=told, retry_after=5)
        return {"status": "ready"}

    @router.get("/metrics", response_class=Metricsheet)
    async def figures() -> Response:
        """Return the figures of the server in the format of Prometheus."""
        return Metricsheet(metrics.text())

    return router


class Metricsheet(Response):
    """Figures as text."""

    media_type = CONTENT_TYPE
