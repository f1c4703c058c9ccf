"""Which web pages may ask: the server's own, and those that are allowed by name.

A browser says from which page a request comes. Without a list nothing is allowed across origins, and no answer can
be read by another page; with one, exactly its pages can, and never with cookies.
"""

from collections.abc import Iterable

from sightline.serving.facts import Scope, facts_of, header_values
from sightline.serving.problem import Problem

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, x-api-key"),
    (b"access-control-max-age", b"600"),
]


class Origins:
    """The pages elsewhere that may ask, such as `https://notes.example`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = {origin.lower().rstrip("/").encode("ascii") for origin in allowed}

    def check(self, scope: Scope) -> None:
        """Refuse what a page elsewhere asks for, unless it is allowed; then let it read the answer."""
        given = header_values(scope, b"origin")
        origin = given[0].lower() if len(given) == 1 else b""
        if given and origin in self.allowed:
            facts_of(scope).headers += [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"x-request-id, retry-after"),
                (b"vary", b"origin"),
            ]
            return
        foreign = bool(given) and not same_origin(scope, origin)
        if not given:
            foreign = header_values(scope, b"sec-fetch-site") in ([b"cross-site"], [b"same-site"])
        if foreign and (scope["method"] in CHANGING or is_preflight(scope)):
            raise Problem(
                403, "pages of other origins may not ask this (--allowed-origin allows one)", code="origin_not_allowed"
            )

    def is_allowed_preflight(self, scope: Scope) -> bool:
        """Return whether a browser asks in advance on behalf of an allowed page: it brings no key then."""
        origin = header_values(scope, b"origin")
        return is_preflight(scope) and len(origin) == 1 and origin[0].lower() in self.allowed


def is_preflight(scope: Scope) -> bool:
    """Return whether a browser asks in advance what it may ask."""
    return scope["method"] == "OPTIONS" and bool(header_values(scope, b"access-control-request-method"))


def same_origin(scope: Scope, origin: bytes) -> bool:
    """Return whether the page is the server's own; a proxy before it may speak https."""
    scheme, _, place = origin.partition(b"://")
    return scheme in (b"http", b"https") and [place] == [host.lower() for host in header_values(scope, b"host")]
