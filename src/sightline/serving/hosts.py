"""By which names the server may be addressed: a page elsewhere must not reach it under a name of its own.

A web page whose name is pointed at 127.0.0.1 after it was loaded (DNS rebinding) is, for the browser, of the same
origin as the server. Its requests give it away: their Host is the page's name, not the server's.
"""

import re
from collections.abc import Iterable

from sightline.serving.facts import Scope, header_values
from sightline.serving.problem import Problem

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
WILDCARDS = ("", "0.0.0.0", "[::]")  # noqa: S104 - "every address" is a place to listen, but nobody's name
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252}))(?::[0-9]{1,5})?")


class Hosts:
    """The names that are answered: those of the machine itself, the one it was bound to, and those allowed by name.

    An address that the client has really connected to is always right: no page can make up one that leads here.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {bracketed(name.lower()) for name in (*LOOPBACK, *names)} - set(WILDCARDS)

    def check(self, scope: Scope) -> None:
        """Refuse a request that was meant for somebody else."""
        given = header_values(scope, b"host")
        match = HOST.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            raise Problem(
                400, "a request needs exactly one Host header, with a name and perhaps a port", code="bad_host"
            )
        name = match[1].decode("ascii").lower()
        server = scope.get("server")
        if name not in self.names and not (server and name == bracketed(str(server[0]).lower())):
            raise Problem(
                421,
                "this server does not answer to that host name (--allowed-host NAME adds one)",
                code="host_not_allowed",
            )


def bracketed(name: str) -> str:
    """Return a name as it stands in a Host header: an IPv6 address is in brackets there."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
