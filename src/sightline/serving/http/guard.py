"""The guard: checks before every route (host, origin, key, rate, body size, capacity, in that order), a time limit."""

import asyncio
import hashlib
import hmac
import ipaddress
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable

from starlette.responses import Response

from sightline.serving.http.middleware import App, Message, Receive, Scope, Send, get_context, header_values
from sightline.serving.http.problem import Problem
from sightline.serving.http.settings import Limits, ServingSettings

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
WILDCARD_HOSTS = ("", "0.0.0.0", "[::]")  # noqa: S104 - "every address" is not a host name
HOST_HEADER = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252}))(?::[0-9]{1,5})?")


class AllowedHosts:
    """The allowed host names: those of the machine itself, the one it was bound to, and those of --allowed-host.

    If the name of a web page is pointed at 127.0.0.1 after it was loaded (DNS rebinding), the browser treats the server
    as the page's own origin. Its requests can be recognized: their Host is the page's name, not the server's. The IP
    address that the client has connected to is always allowed: no page can claim it as its own name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {bracket_ipv6(name.lower()) for name in (*LOOPBACK_HOSTS, *names)} - set(WILDCARD_HOSTS)

    def check(self, scope: Scope) -> None:
        """Refuse a request with another host name."""
        given = header_values(scope, b"host")
        match = HOST_HEADER.fullmatch(given[0]) if len(given) == 1 else None
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


WRITE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, x-api-key"),
    (b"access-control-max-age", b"600"),
]


class AllowedOrigins:
    """Other origins whose pages may send requests, such as `https://notes.example`.

    A browser sends the origin of the page that makes a request. By default no other origin may change anything or read
    responses; allowed origins may do both, but never with cookies.
    """

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
        if foreign and (scope["method"] in WRITE_METHODS or is_preflight(scope)):
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


PUBLIC_PATHS = frozenset({"/health", "/ready"})
READ_METHODS = frozenset({"GET", "HEAD"})


class Authenticator:
    """Checks API keys, of which it keeps only the hashes. Without keys, every request passes.

    A read-only key is good for GET and HEAD only, which is what Prometheus needs.
    """

    def __init__(self, keys: Iterable[str], *, read_only_keys: Iterable[str] = (), public: Iterable[str] = ()) -> None:
        self.read_only_hashes = [hash_key(key.encode("utf-8")) for key in read_only_keys]
        self.hashes = [hash_key(key.encode("utf-8")) for key in keys] + self.read_only_hashes
        self.public = PUBLIC_PATHS | set(public)

    def check(self, scope: Scope) -> str | None:
        """Return the client's id by its key, or None if no key is needed; refuse all others."""
        if not self.hashes or (scope["path"] in self.public and scope["method"] in READ_METHODS):
            return None
        presented = presented_keys(scope)
        known = self.match(presented[0]) if len(presented) == 1 else None
        if known is None:
            raise Problem(
                401,
                "API key missing or wrong: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`",
                code="invalid_api_key",
                headers={"www-authenticate": 'Bearer realm="sightline"'},
            )
        if known in self.read_only_hashes and scope["method"] not in READ_METHODS:
            raise Problem(
                403,
                "this key is read-only (GET and HEAD): other methods need a key given with --api-key",
                code="read_only_key",
            )
        return f"key-{known.hex()[:8]}"

    def match(self, key: bytes) -> bytes | None:
        """Return the hash of a valid key, else None; compares all in constant time, so that timing leaks nothing."""
        given = hash_key(key)
        found = [known for known in self.hashes if hmac.compare_digest(known, given)]
        return found[0] if found and key else None


def presented_keys(scope: Scope) -> list[bytes]:
    """Return the keys in a request's headers; keys in URLs are ignored, as URLs are logged."""
    bearers = [value.partition(b" ") for value in header_values(scope, b"authorization")]
    keys = [rest.strip() if scheme.lower() == b"bearer" else b"" for scheme, _, rest in bearers]
    return keys + header_values(scope, b"x-api-key")


def hash_key(key: bytes) -> bytes:
    """Return the hash of a key."""
    return hashlib.sha256(key).digest()


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


MAX_CLIENTS = 10_000


def loop_time() -> float:
    """Return the time of the event loop's clock, which all deadlines follow."""
    return asyncio.get_running_loop().time()


class RateLimiter:
    """One bucket for each recent client, holding what it may spend in a minute.

    A client that was evicted starts with a full bucket: thousands of others have sent requests since it last did.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        what: str,
        flag: str,
        clock: Callable[[], float] = loop_time,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self.per_minute = per_minute
        self.what = what
        self.flag = flag
        self.clock = clock
        self.max_clients = max_clients
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, client_id: str, amount: int) -> None:
        """Take from the client's bucket, or refuse with the time after which it holds enough.

        More than a whole bucket is granted when the bucket is full; the next request then waits for the debt.
        """
        if not self.per_minute:
            return
        now = self.clock()
        level, since = self.buckets.get(client_id, (float(self.per_minute), now))
        level = min(float(self.per_minute), level + (now - since) * self.per_minute / 60)
        missing = min(amount, self.per_minute) - level
        if missing <= 0:
            level -= amount
        self.buckets[client_id] = (level, now)
        self.buckets.move_to_end(client_id)
        while len(self.buckets) > self.max_clients:
            self.buckets.popitem(last=False)
        if missing > 0:
            raise Problem(
                429,
                f"rate limit: {self.per_minute:,} {self.what} per minute for each client ({self.flag} raises it)",
                code="rate_limit_exceeded",
                retry_after=max(1, math.ceil(missing * 60 / self.per_minute)),
            )


class BodyLimit:
    """Refuses bodies that are too large."""

    def __init__(self, limits: Limits) -> None:
        self.max_bytes = limits.body_bytes
        self.flag = limits.flag("body_bytes")

    def check(self, scope: Scope) -> None:
        """Refuse a body by its Content-Length."""
        given = header_values(scope, b"content-length")
        if len(given) > 1 or not all(length.isdigit() and len(length) <= 18 for length in given):
            raise Problem(400, "Content-Length must be given once, as an integer", code="bad_content_length")
        if given and int(given[0]) > self.max_bytes:
            raise self.too_large()

    def limit_receive(self, receive: Receive) -> Receive:
        """Return a `receive` that counts bytes and refuses more than the limit."""
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise self.too_large()
            return message

        return receive_counted

    def too_large(self) -> Problem:
        """Return the refusal."""
        return Problem(
            413,
            f"the body is larger than {self.max_bytes:,} bytes ({self.flag} raises the limit)",
            code="body_too_large",
        )


def accept_all() -> None:
    """Accept every request."""


class Guard:
    """Middleware that refuses requests before they reach an endpoint, and ends those that take too long."""

    def __init__(
        self,
        app: App,
        *,
        settings: ServingSettings,
        public: frozenset[str] = frozenset(),
        check_capacity: Callable[[], None] = accept_all,
    ) -> None:
        """`check_capacity` refuses POST requests of an overloaded server before their body is read, which is cheap."""
        self.app = app
        self.check_capacity = check_capacity
        self.limits = settings.limits
        self.hosts = AllowedHosts((settings.host, *settings.allowed_hosts))
        self.origins = AllowedOrigins(settings.allowed_origins)
        self.auth = Authenticator(settings.keys, read_only_keys=settings.read_only_keys, public=public)
        self.addresses = ClientAddresses(settings.trusted_proxies)
        self.body_limit = BodyLimit(settings.limits)
        self.rate_limiter = RateLimiter(
            settings.limits.requests_per_minute, what="requests", flag=settings.limits.flag("requests_per_minute")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise a `Problem`."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.hosts.check(scope)
        self.origins.check(scope)
        if self.origins.is_allowed_preflight(scope):
            await Response(status_code=204, headers={k.decode(): v.decode() for k, v in PREFLIGHT_HEADERS})(
                scope, receive, send
            )
            return
        context = get_context(scope)
        context.client_id = self.auth.check(scope) or self.addresses.client_id(scope)
        if scope["path"] not in self.auth.public:
            self.rate_limiter.spend(context.client_id, 1)
        self.body_limit.check(scope)
        if scope["method"] == "POST":
            self.check_capacity()
        await self.run_with_timeout(scope, self.body_limit.limit_receive(receive), send)

    async def run_with_timeout(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and cancel it when its time is over."""
        seconds, flag = self.limits.request_timeout, self.limits.flag("request_timeout")
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                await self.app(scope, receive, send)
        except TimeoutError:
            if not clock.expired():
                raise
            raise Problem(
                504, f"the request took longer than {seconds:g} seconds ({flag} raises the limit)", code="timeout"
            ) from None
