"""Allowed host names: protection against DNS rebinding.

If the name of a web page is pointed at 127.0.0.1 after it was loaded, the browser treats the server as the page's own
origin. Its requests can be recognized: their Host is the page's name, not the server's.
"""

import re
from collections.abc import Iterable

from sightline.serving.problem import Problem
from sightline.serving.request_context import Scope, header_values

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
WILDCARDS = ("", "0.0.0.0", "[::]")  # noqa: S104 - "every address" is not a host name
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252}))(?::[0-9]{1,5})?")


class AllowedHosts:
    """The allowed names: those of the machine itself, the one it was bound to, and those of --allowed-host.

    The IP address that the client has connected to is always allowed: no page can claim it as its own name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {bracket_ipv6(name.lower()) for name in (*LOOPBACK, *names)} - set(WILDCARDS)

    def check(self, scope: Scope) -> None:
        """Refuse a request with another host name."""
        given = header_values(scope, b"host")
        match = HOST.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            raise Problem(
                400, "exactly one Host header is required: a host name, and optionally a port", code="bad_host"
            )
        name = match[1].decode("ascii").lower()
        server = scope.get("server")
        if name not in self.names and not (server and name == bracket_ipv6(str(server[0]).lower())):
            raise Problem(
                421,
                "host name not allowed (--allowed-host NAME allows one)",
                code="host_not_allowed",
            )


def bracket_ipv6(name: str) -> str:
    """Return a name as a Host header has it: IPv6 addresses in brackets."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
