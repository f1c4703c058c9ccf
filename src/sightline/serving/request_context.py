"""The context of a request: its id, its client, and additional response headers."""

import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import HTTPConnection

KEY = "sightline"
Scope = MutableMapping[str, Any]


@dataclass
class RequestContext:
    """Created when a request arrives, filled in by the guard, returned by `get_context`."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Sent as `x-request-id` and logged, so that a response can be found in the log."""
    client_id: str = "unknown"
    """`key-` and the first digits of the key's hash, or `address-` and the client's address."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Response headers besides those every response has."""


def get_context(request: HTTPConnection | Scope) -> RequestContext:
    """Return the context of a request or its ASGI scope; create it on first use."""
    scope = request.scope if isinstance(request, HTTPConnection) else request
    context = scope.setdefault(KEY, RequestContext())
    if not isinstance(context, RequestContext):
        raise TypeError(f"the key {KEY!r} of the request's scope is already in use")
    return context


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of one header."""
    return [value for key, value in scope["headers"] if key == name]
