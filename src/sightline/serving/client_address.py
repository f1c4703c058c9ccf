"""The client's address, by which rate limits count requests without a key."""

import ipaddress
from collections.abc import Iterable

from sightline.serving.request_context import Scope, header_values


class ClientAddresses:
    """Finds the address of clients; X-Forwarded-For is believed only from trusted proxies."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self.trusted = [ipaddress.ip_network(proxy, strict=False) for proxy in trusted]

    def client_id(self, scope: Scope) -> str:
        """Return an id for the client by its address; an IPv6 /64 network counts as one client."""
        client = scope.get("client")
        address = parse_address(str(client[0])) if client else None
        for value in reversed(b",".join(header_values(scope, b"x-forwarded-for")).split(b",")):
            before = parse_address(value.decode("latin-1").strip())
            if address is None or before is None or not any(address in network for network in self.trusted):
                break
            address = before
        if isinstance(address, ipaddress.IPv6Address):
            return f"address-{ipaddress.ip_network((address, 64), strict=False)}"
        return f"address-{address or 'unknown'}"


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address, or None if the text is not one."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
