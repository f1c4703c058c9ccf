"""What the server knows about the request at hand: its id, and who asks."""

import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import HTTPConnection

KEY = "sightline"
Scope = MutableMapping[str, Any]


@dataclass
class Facts:
    """Made when a request arrives, filled in by the guards, read by whoever asks `facts_of`."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Sent with the answer as `x-request-id` and written into the log, so that the two can be brought together."""
    caller: str = "unknown"
    """Who asks: `key-` and the beginning of the key's hash, or `address-` and where the request came from."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """What goes before the answer besides what every answer has."""


def facts_of(request: HTTPConnection | Scope) -> Facts:
    """Return what is known about a request, by the request or its ASGI scope."""
    scope = request.scope if isinstance(request, HTTPConnection) else request
    facts = scope.setdefault(KEY, Facts())
    if not isinstance(facts, Facts):
        raise TypeError(f"somebody else uses {KEY!r} in the scope of a request")
    return facts


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of one header."""
    return [value for key, value in scope["headers"] if key == name]
