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
    read_keys: tuple[str, ...] = field(default=(), repr=False)
    """Keys that may only look (GET and HEAD)."""
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
        for flag, keys in {"--api-key": self.keys, "--read-key": self.read_keys}.items():
            checks.that(all(map(is_key, keys)), f"{flag} needs at least {SHORTEST_KEY} plain characters without blanks")
        checks.that(
            bool(self.keys) or not self.read_keys,
            "--read-key needs an --api-key beside it: without one, everybody may do everything",
        )
        checks.that(not set(self.keys) & set(self.read_keys), "--read-key must be another key than those of --api-key")
        checks.that(
            all(ORIGIN.fullmatch(origin) for origin in self.allowed_origins),
            "--allowed-origin needs one origin such as https://notes.example (not *: name each)",
        )
        checks.that(
            all(is_network(proxy) for proxy in self.trusted_proxies), "--trusted-proxy needs an address or network"
        )
        checks.done()


def is_key(text: str) -> bool:
    """Return whether the text can be sent as a key, and is not easily guessed."""
    return len(text) >= SHORTEST_KEY and text.isascii() and text.isprintable() and " " not in text


def is_network(text: str) -> bool:
    """Return whether the text is an address or a network of addresses."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
