"""Settings and limits of the server: one table, from which error messages and command-line options are generated."""

import ipaddress
import re
from dataclasses import dataclass, field, fields
from typing import Any

from sightline.config import Checks
from sightline.serving.http.problem import Problem


def limit(default: int | float, flag: str, help: str, *, minimum: int | float = 1) -> Any:  # noqa: A002 - as in settings
    """Define one limit: its default, its command-line option, and the help text of that option."""
    return field(default=default, metadata={"flag": flag, "help": help, "minimum": minimum})


@dataclass(frozen=True)
class Limits:
    """Every limit of the server. Where `minimum` is 0, 0 means unlimited (`shutdown_timeout`: no waiting)."""

    body_bytes: int = limit(1 << 20, "--max-body-bytes", "maximum size of a request body, in bytes")
    header_bytes: int = limit(16 << 10, "--max-header-bytes", "maximum size of a request's url and headers, in bytes")
    header_fields: int = limit(64, "--max-header-fields", "maximum number of header fields of a request")
    prompt_tokens: int = limit(
        0, "--max-prompt-tokens", "maximum number of prompt tokens; 0: the model's maximum length", minimum=0
    )
    new_tokens: int = limit(2048, "--max-new-tokens", "maximum number of tokens to generate for each text")
    choices: int = limit(4, "--max-choices", "maximum number of completions for each prompt (n)")
    stop_sequences: int = limit(8, "--max-stop-sequences", "maximum number of stop sequences of a request")
    inputs: int = limit(64, "--max-inputs", "maximum number of texts, or sentences of them, in one request")
    beams: int = limit(16, "--max-beams", "maximum beam size of a request")
    queue: int = limit(64, "--max-queue", "maximum number of requests waiting for a model")
    batch_size: int = limit(
        64, "--max-batch-size", "maximum number of rows generated at once (each beam counts as one)"
    )
    connections: int = limit(1024, "--max-connections", "maximum number of open connections")
    requests_per_minute: int = limit(
        0,
        "--max-requests-per-minute",
        "rate limit: requests per minute for each key or address; 0: unlimited",
        minimum=0,
    )
    tokens_per_minute: int = limit(
        0, "--max-tokens-per-minute", "rate limit: tokens per minute for each key or address; 0: unlimited", minimum=0
    )
    request_timeout: int | float = limit(
        120.0, "--request-timeout", "maximum time for one request, in seconds", minimum=0.01
    )
    header_timeout: int | float = limit(
        10.0, "--header-timeout", "maximum time for a client to send the headers, in seconds", minimum=0.01
    )
    body_timeout: int | float = limit(
        30.0, "--body-timeout", "maximum time for a client to send the body, in seconds", minimum=0.01
    )
    write_timeout: int | float = limit(
        30.0, "--write-timeout", "maximum time for a client to read buffered output, in seconds", minimum=0.01
    )
    keep_alive_timeout: int | float = limit(
        5.0, "--keep-alive-timeout", "time an idle connection stays open, in seconds", minimum=0.01
    )
    shutdown_timeout: int | float = limit(
        30.0, "--shutdown-timeout", "time for running requests to finish on shutdown, in seconds", minimum=0
    )

    def __post_init__(self) -> None:
        checks = Checks()
        for entry in fields(self):
            value, minimum = getattr(self, entry.name), entry.metadata["minimum"]
            checks.that(
                not isinstance(value, bool) and isinstance(value, int | float) and minimum <= value < 1 << 40,
                f"{entry.metadata['flag']} must be at least {minimum:,}",
            )
        checks.done()

    def flag(self, name: str) -> str:
        """Return the command-line option that changes a limit."""
        entry = next(entry for entry in fields(self) if entry.name == name)
        return str(entry.metadata["flag"])

    def exceeded(
        self, name: str, given: int, *, param: str, allowed: int | None = None, what: str | None = None
    ) -> Problem:
        """Return the refusal of a value above a limit: both numbers, and the option that raises the limit."""
        allowed = getattr(self, name) if allowed is None else allowed
        return Problem(
            400,
            f"{param}: {given:,} {f'{what} exceed' if what else 'exceeds'} the limit of {allowed:,} "
            f"({self.flag(name)} raises it)",
            param=param,
            code=f"{name}_exceeded",
        )

    def check(self, name: str, given: int, *, param: str, what: str | None = None) -> None:
        """Refuse a value above a limit; `what` says of what it is the number."""
        if given > getattr(self, name):
            raise self.exceeded(name, given, param=param, what=what)


def overloaded(limits: Limits, *, retry_after: int = 1) -> Problem:
    """Return the refusal of a request when the queue is full."""
    return Problem(
        503,
        f"the queue is full ({limits.queue:,} requests): try again later ({limits.flag('queue')} raises the limit)",
        code="overloaded",
        retry_after=retry_after,
    )


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
