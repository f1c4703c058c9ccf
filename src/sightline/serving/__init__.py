"""The HTTP server: everything between a socket and an endpoint.

Endpoints are added to a `Router`, raise a `Problem` to refuse a request, and are assembled by `create_app`; `bind`
opens the socket and `serve` runs the server on it. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.serving.address import bind, url_of
    from sightline.serving.app import Application, charge, create_app
    from sightline.serving.body import Body, accepts_form
    from sightline.serving.lifecycle import Lifecycle
    from sightline.serving.limits import Limits, overloaded
    from sightline.serving.metrics import Metrics
    from sightline.serving.problem import Problem
    from sightline.serving.request_context import get_context
    from sightline.serving.route import Router
    from sightline.serving.server import background, serve
    from sightline.serving.settings import ServingSettings

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
    "address": ("bind", "url_of"),
    "app": ("Application", "charge", "create_app"),
    "body": ("Body", "accepts_form"),
    "request_context": ("get_context",),
    "lifecycle": ("Lifecycle",),
    "limits": ("Limits", "overloaded"),
    "metrics": ("Metrics",),
    "problem": ("Problem",),
    "route": ("Router",),
    "server": ("background", "serve"),
    "settings": ("ServingSettings",),
}


def __getattr__(name: str) -> object:
    for module, names in LAZY.items():
        if name in names:
            return getattr(import_module(f"sightline.serving.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
