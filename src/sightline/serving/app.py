"""The application: routers, with the middleware that protects them."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.types import Lifespan

from sightline import __version__
from sightline.serving.auth import PUBLIC
from sightline.serving.guard import Guard, accept_all
from sightline.serving.handlers import HANDLERS
from sightline.serving.health import health_router
from sightline.serving.lifecycle import Lifecycle
from sightline.serving.metrics import Metrics
from sightline.serving.openapi import complete_schema
from sightline.serving.rate_limit import RateLimiter
from sightline.serving.request_context import get_context
from sightline.serving.request_middleware import RequestMiddleware
from sightline.serving.route import StrictRoute
from sightline.serving.settings import ServingSettings


class Application(FastAPI):
    """FastAPI's application with the server's settings, metrics, lifecycle and token budgets."""

    def __init__(
        self,
        settings: ServingSettings,
        *,
        public: frozenset[str],
        metrics: Metrics,
        lifecycle: Lifecycle,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None,
        check_capacity: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.public = public
        self.metrics = metrics
        self.lifecycle = lifecycle
        self.token_budgets = RateLimiter(
            settings.limits.tokens_per_minute, what="tokens", flag=settings.limits.flag("tokens_per_minute")
        )
        super().__init__(
            title="Sightline",
            version=__version__,
            docs_url=None,  # both pages would load scripts from other sites
            redoc_url=None,
            redirect_slashes=False,
            telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
            lifespan=lifespan,
            exception_handlers=dict(HANDLERS),
            middleware=[
                Middleware(RequestMiddleware, lifecycle=lifecycle, metrics=metrics),
                Middleware(Guard, settings=settings, public=public, check_capacity=check_capacity),
            ],
        )

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI schema, with all error responses."""
        if not self.openapi_schema:
            routes = [context.original_route for context in iter_route_contexts(self.routes)]
            forms = {route.path for route in routes if isinstance(route, StrictRoute) and route.accepts_form}
            self.openapi_schema = complete_schema(
                super().openapi(), keys=bool(self.settings.keys), public=self.public | PUBLIC, forms=forms
            )
        return self.openapi_schema


def create_app(
    settings: ServingSettings,
    *,
    routers: Iterable[APIRouter] = (),
    public_paths: Iterable[str] = (),
    metrics: Metrics | None = None,
    lifecycle: Lifecycle | None = None,
    lifespan: Lifespan[Any] | None = None,
    check_capacity: Callable[[], None] = accept_all,
) -> Application:
    """Return the application with these routers, all protected alike.

    `public_paths` need no key (exactly these, for GET only): static pages without any data.
    `check_capacity` raises a `Problem` while the server cannot take another POST.
    """
    app = Application(
        settings,
        public=frozenset(public_paths),
        metrics=metrics or Metrics(),
        lifecycle=lifecycle or Lifecycle(),
        lifespan=lifespan,
        check_capacity=check_capacity,
    )
    for router in (health_router(app.lifecycle, app.metrics), *routers):
        app.include_router(router)
    loose = [
        context.path
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, APIRoute) and not isinstance(context.original_route, StrictRoute)
    ]
    if loose:
        raise TypeError(f"{', '.join(map(str, loose))}: add it to a sightline.serving Router, whose routes are strict")
    return app


def charge(request: HTTPConnection, tokens: int) -> None:
    """Take tokens from the client's budget per minute, or refuse with 429."""
    app = request.app
    if not isinstance(app, Application):
        raise TypeError("only an app made by create_app has token budgets")
    app.token_budgets.spend(get_context(request).client_id, tokens)
