"""Allowed origins (CORS): the server's own, and those of --allowed-origin.

A browser sends the origin of the page that makes a request. By default no other origin may change anything or read
responses; listed origins may do both, but never with cookies.
"""

from collections.abc import Iterable

from sightline.serving.problem import Problem
from sightline.serving.request_context import Scope, get_context, header_values

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, x-api-key"),
    (b"access-control-max-age", b"600"),
]


class AllowedOrigins:
    """Other origins whose pages may send requests, such as `https://notes.example`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = {origin.lower().rstrip("/").encode("ascii") for origin in allowed}

    def check(self, scope: Scope) -> None:
        """Refuse requests of other origins, unless they are allowed; then let them read the response."""
        given = header_values(scope, b"origin")
        origin = given[0].lower() if len(given) == 1 else b""
        if given and origin in self.allowed:
            get_context(scope).headers += [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"x-request-id, retry-after"),
                (b"vary", b"origin"),
            ]
            return
        foreign = bool(given) and not same_origin(scope, origin)
        if not given:
            foreign = header_values(scope, b"sec-fetch-site") in ([b"cross-site"], [b"same-site"])
        if foreign and (scope["method"] in CHANGING or is_preflight(scope)):
            raise Problem(403, "origin not allowed (--allowed-origin ORIGIN allows one)", code="origin_not_allowed")

    def is_allowed_preflight(self, scope: Scope) -> bool:
        """Return whether this is a CORS preflight for an allowed origin; a preflight carries no key."""
        origin = header_values(scope, b"origin")
        return is_preflight(scope) and len(origin) == 1 and origin[0].lower() in self.allowed


def is_preflight(scope: Scope) -> bool:
    """Return whether this is a CORS preflight."""
    return scope["method"] == "OPTIONS" and bool(header_values(scope, b"access-control-request-method"))


def same_origin(scope: Scope, origin: bytes) -> bool:
    """Return whether the origin is the server's own; with a proxy in front it may be https."""
    scheme, _, authority = origin.partition(b"://")
    return scheme in (b"http", b"https") and [authority] == [host.lower() for host in header_values(scope, b"host")]
