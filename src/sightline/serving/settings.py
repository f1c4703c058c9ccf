"""Settings of the server, given when it is started."""

import ipaddress
import re
from dataclasses import dataclass, field

from sightline.serving.limits import Limits
from sightline.settings import Checks

ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-]+(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
MIN_KEY_LENGTH = 8


@dataclass(frozen=True)
class ServingSettings:
    """Address, access control and limits."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = field(default=(), repr=False)
    """API keys; if there are any, every request needs one."""
    read_only_keys: tuple[str, ...] = field(default=(), repr=False)
    """API keys for GET and HEAD only."""
    allow_unauthenticated: bool = False
    """Whether other machines may send requests without a key."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names of the server, besides those of the machine itself."""
    allowed_origins: tuple[str, ...] = ()
    """Other origins whose pages may send requests, such as `https://notes.example`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is trusted."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        checks = Checks()
        checks.between(0, 65535, **{"--port": self.port})
        for flag, keys in {"--api-key": self.keys, "--read-only-key": self.read_only_keys}.items():
            checks.that(
                all(map(is_key, keys)), f"{flag} must have at least {MIN_KEY_LENGTH} ASCII characters, no spaces"
            )
        checks.that(
            bool(self.keys) or not self.read_only_keys,
            "--read-only-key needs an --api-key: without one, requests need no key at all",
        )
        checks.that(not set(self.keys) & set(self.read_only_keys), "--read-only-key must differ from every --api-key")
        checks.that(
            all(ORIGIN.fullmatch(origin) for origin in self.allowed_origins),
            "--allowed-origin must be an origin such as https://notes.example (* is not supported)",
        )
        checks.that(
            all(is_network(proxy) for proxy in self.trusted_proxies), "--trusted-proxy must be an IP address or network"
        )
        checks.done()


def is_key(text: str) -> bool:
    """Return whether the text can be sent in a header, and is not too short."""
    return len(text) >= MIN_KEY_LENGTH and text.isascii() and text.isprintable() and " " not in text


def is_network(text: str) -> bool:
    """Return whether the text is an IP address or network."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
