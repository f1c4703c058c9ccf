"""The application: routers, the middleware that protects them, the token budgets of clients, and the OpenAPI schema."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.types import Lifespan

from sightline import __version__
from sightline.serving.http.guard import PUBLIC_PATHS, Guard, RateLimiter, accept_all
from sightline.serving.http.metrics import Lifecycle, Metrics, health_router
from sightline.serving.http.middleware import RequestMiddleware, get_context
from sightline.serving.http.routing import FORM, HANDLERS, JSON, StrictRoute
from sightline.serving.http.settings import ServingSettings

# Error responses in the schema: of every operation, and of those with keys, with a body, with a path parameter.
ALWAYS = {
    400: "Invalid request; the message says why.",
    403: "Origin not allowed, or the key is read-only.",
    421: "Host name not allowed.",
    429: "Rate limit reached: see Retry-After.",
    431: "The URL and headers are too large.",
    500: "Internal error; the server's log has the details under the request's id.",
    503: "The server is overloaded or shutting down: see Retry-After.",
    504: "The request took too long.",
}
WITH_KEYS = {401: "API key missing or wrong."}
WITH_BODY = {408: "The body was sent too slowly.", 413: "The body is too large.", 415: "The body is not JSON."}
WITH_PARAMETER = {404: "Not found."}
METHODS = ("get", "put", "post", "delete", "patch")


class ErrorDetail(BaseModel):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


def complete_schema(schema: dict[str, Any], *, keys: bool, public: frozenset[str], forms: set[str]) -> dict[str, Any]:
    """Return FastAPI's schema with all error responses, and without 422, which is never sent."""
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    template = "#/components/schemas/{model}"
    _, errors = models_json_schema([(ErrorResponse, "serialization")], ref_template=template)
    components.update(errors["$defs"])
    if keys:
        schemes = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
        schema["components"]["securitySchemes"] = schemes
    for path, operations in schema.get("paths", {}).items():
        for method in METHODS:
            if method in operations:
                complete_operation(operations[method], path=path, keys=keys and path not in public, form=path in forms)
    return schema


def complete_operation(operation: dict[str, Any], *, path: str, keys: bool, form: bool) -> None:
    """Add the error responses to one operation."""
    body = operation.get("requestBody")
    possible = {
        **ALWAYS,
        **(WITH_KEYS if keys else {}),
        **(WITH_BODY if body else {}),
        **(WITH_PARAMETER if "{" in path else {}),
    }
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}}}
    answers = operation["responses"]
    answers.pop("422", None)
    for status, text in possible.items():
        answers.setdefault(str(status), {"description": text})
    for status, answer in answers.items():
        if status.startswith(("4", "5")):
            answer.setdefault("content", content)
    if keys:
        operation["security"] = [{"bearer": []}, {"key": []}]
    if form and body:
        body["content"][FORM] = body["content"][JSON]


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
                super().openapi(), keys=bool(self.settings.keys), public=self.public | PUBLIC_PATHS, forms=forms
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
