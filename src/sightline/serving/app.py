"""The application: routers plugged in, everything that protects them around them."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.types import Lifespan

from sightline import __version__
from sightline.serving.envelope import Envelope
from sightline.serving.facts import facts_of
from sightline.serving.guard import Guard, always_room
from sightline.serving.handlers import HANDLERS
from sightline.serving.health import health_router
from sightline.serving.keys import PUBLIC
from sightline.serving.lifecycle import Lifecycle
from sightline.serving.metrics import Metrics
from sightline.serving.openapi import completed
from sightline.serving.rate import Buckets
from sightline.serving.route import StrictRoute
from sightline.serving.settings import ServingSettings


class Application(FastAPI):
    """FastAPI's application with what endpoints need of the server: settings, figures, life, and budgets."""

    def __init__(
        self,
        settings: ServingSettings,
        *,
        public: frozenset[str],
        metrics: Metrics,
        lifecycle: Lifecycle,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None,
        check_room: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.public = public
        self.metrics = metrics
        self.lifecycle = lifecycle
        self.budgets = Buckets(
            settings.limits.tokens_per_minute, what="tokens", flag=settings.limits.flag("tokens_per_minute")
        )
        super().__init__(
            title="Sightline",
            version=__version__,
            docs_url=None,  # both pages would load their scripts from elsewhere
            redoc_url=None,
            redirect_slashes=False,
            telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
            lifespan=lifespan,
            exception_handlers=dict(HANDLERS),
            middleware=[
                Middleware(Envelope, lifecycle=lifecycle, metrics=metrics),
                Middleware(Guard, settings=settings, public=public, check_room=check_room),
            ],
        )

    def openapi(self) -> dict[str, Any]:
        """Return the description of the interface, with every refusal in it."""
        if not self.openapi_schema:
            routes = [context.original_route for context in iter_route_contexts(self.routes)]
            forms = {route.path for route in routes if isinstance(route, StrictRoute) and route.accepts_form}
            self.openapi_schema = completed(
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
    check_room: Callable[[], None] = always_room,
) -> Application:
    """Return the application with these routers, all of them protected alike.

    `public_paths` need no key (exactly these, for GET only): the pages of a shell that hold nothing of anybody's.
    `check_room` raises a `Problem` while there is no room for another POST.
    """
    app = Application(
        settings,
        public=frozenset(public_paths),
        metrics=metrics or Metrics(),
        lifecycle=lifecycle or Lifecycle(),
        lifespan=lifespan,
        check_room=check_room,
    )
    for router in (health_router(app.lifecycle, app.metrics), *routers):
        app.include_router(router)
    loose = [
        context.path
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, APIRoute) and not isinstance(context.original_route, StrictRoute)
    ]
    if loose:
        raise TypeError(
            f"{', '.join(map(str, loose))}: write it on a sightline.serving Router, whose routes are strict"
        )
    return app


def charge(request: HTTPConnection, tokens: int) -> None:
    """Take tokens from the caller's budget of this minute, or refuse with 429."""
    app = request.app
    if not isinstance(app, Application):
        raise TypeError("only an app made by create_app has budgets")
    app.budgets.spend(facts_of(request).caller, tokens)
