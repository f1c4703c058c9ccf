"""Where a request comes from, for counting: the address of the client, as far as it can be believed."""

import ipaddress
from collections.abc import Iterable

from sightline.serving.facts import Scope, header_values


class Addresses:
    """Reads addresses. What a request says of its own way is believed only from the proxies that are trusted."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self.trusted = [ipaddress.ip_network(proxy, strict=False) for proxy in trusted]

    def caller(self, scope: Scope) -> str:
        """Return a name for the client by its address; a network of IPv6 addresses is one client."""
        client = scope.get("client")
        address = parsed(str(client[0])) if client else None
        for value in reversed(b",".join(header_values(scope, b"x-forwarded-for")).split(b",")):
            before = parsed(value.decode("latin-1").strip())
            if address is None or before is None or not any(address in network for network in self.trusted):
                break
            address = before
        if isinstance(address, ipaddress.IPv6Address):
            return f"address-{ipaddress.ip_network((address, 64), strict=False)}"
        return f"address-{address or 'unknown'}"


def parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address, or None if it is none."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
