"""HTTP: everything between a socket and an endpoint. Knows no model.

    server      binds the socket and runs the application until a signal
    protocol    one connection: timeouts, and limits on what is buffered
    app         the application: routers, middleware, token budgets, OpenAPI schema
    middleware  an id, one response, a log line and metrics for every request
    guard       the checks before every route: host, origin, key, rate, body size, time
    routing     the router of endpoints: strict bodies, cancellation, errors as responses
    metrics     metrics, the server's lifecycle; /health, /ready, /metrics
    problem     the exception and JSON body of every error response
    settings    settings and limits

Endpoints are added to a `Router`, raise a `Problem` to refuse a request, and are assembled by `create_app`; `bind`
opens the socket and `serve` runs the server on it. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.serving.http.app import Application, charge, create_app
    from sightline.serving.http.metrics import Lifecycle, Metrics
    from sightline.serving.http.middleware import get_context
    from sightline.serving.http.problem import Problem
    from sightline.serving.http.routing import Body, Router, accepts_form
    from sightline.serving.http.server import background, bind, serve, url_of
    from sightline.serving.http.settings import Limits, ServingSettings, overloaded

__all__ = [
    "Application",
    "Body",
    "Lifecycle",
    "Limits",
    "Metrics",
    "Problem",
    "Router",
    "ServingSettings",
    "accepts_form",
    "background",
    "bind",
    "charge",
    "create_app",
    "get_context",
    "overloaded",
    "serve",
    "url_of",
]

LAZY = {
    "app": ("Application", "charge", "create_app"),
    "metrics": ("Lifecycle", "Metrics"),
    "middleware": ("get_context",),
    "problem": ("Problem",),
    "routing": ("Body", "Router", "accepts_form"),
    "server": ("background", "bind", "serve", "url_of"),
    "settings": ("Limits", "ServingSettings", "overloaded"),
}
"""The module of each name."""


def __getattr__(name: str) -> object:
    for module, names in LAZY.items():
        if name in names:
            return getattr(import_module(f"sightline.serving.http.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
