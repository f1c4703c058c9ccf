"""The HTTP server: what stands between a socket and an endpoint, so that endpoints need not think of it.

Endpoints are written on a `Router`, raise a `Problem` when they refuse, and are put together by `create_app`; `bind`
takes the address and `serve` answers on it. Each name is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.serving.address import bind, url_of
    from sightline.serving.app import Application, charge, create_app
    from sightline.serving.body import Body, accepts_form
    from sightline.serving.facts import facts_of
    from sightline.serving.gone import cancelled_when_gone
    from sightline.serving.lifecycle import Lifecycle
    from sightline.serving.limits import Limits, overloaded
    from sightline.serving.metrics import Metrics
    from sightline.serving.problem import Problem
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
    "cancelled_when_gone",
    "charge",
    "create_app",
    "facts_of",
    "overloaded",
    "serve",
    "url_of",
]

LAZY = {
    "address": ("bind", "url_of"),
    "app": ("Application", "charge", "create_app"),
    "body": ("Body", "accepts_form"),
    "facts": ("facts_of",),
    "gone": ("cancelled_when_gone",),
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
