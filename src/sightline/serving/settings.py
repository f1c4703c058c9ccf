"""What the server is told when it is started."""

import ipaddress
import re
from dataclasses import dataclass, field

from sightline.serving.limits import Limits
from sightline.settings import Checks

ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-]+(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
SHORTEST_KEY = 8


@dataclass(frozen=True)
class ServingSettings:
    """Where to listen, who may ask, and how much."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = field(default=(), repr=False)
    """With any, every request needs one of them."""
    allow_unauthenticated: bool = False
    """Whether other machines may ask without a key."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the server is reached, besides those of the machine itself."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages elsewhere that may ask, such as `https://notes.example`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is believed."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        checks = Checks()
        checks.between(0, 65535, **{"--port": self.port})
        checks.that(
            all(
                len(key) >= SHORTEST_KEY and key.isascii() and key.isprintable() and " " not in key for key in self.keys
            ),
            f"--api-key needs at least {SHORTEST_KEY} plain characters without blanks",
        )
        checks.that(
            all(ORIGIN.fullmatch(origin) for origin in self.allowed_origins),
            "--allowed-origin needs one origin such as https://notes.example (not *: name each)",
        )
        checks.that(
            all(is_network(proxy) for proxy in self.trusted_proxies), "--trusted-proxy needs an address or network"
        )
        checks.done()


def is_network(text: str) -> bool:
    """Return whether the text is an address or a network of addresses."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
