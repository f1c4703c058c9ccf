"""The checks before every route: host, origin, key, rate, body size and time."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response

from sightline.serving.auth import Authenticator
from sightline.serving.body_limit import BodyLimit, Receive
from sightline.serving.client_address import ClientAddresses
from sightline.serving.hosts import AllowedHosts
from sightline.serving.origins import PREFLIGHT, AllowedOrigins
from sightline.serving.problem import Problem
from sightline.serving.rate_limit import RateLimiter
from sightline.serving.request_context import Scope, get_context
from sightline.serving.request_middleware import App
from sightline.serving.response_sender import Send
from sightline.serving.settings import ServingSettings


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
            await Response(status_code=204, headers={k.decode(): v.decode() for k, v in PREFLIGHT})(
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
