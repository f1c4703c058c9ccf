"""What stands before every route: host, origin, key, rate, size and time are checked here, by default and for all."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response

from sightline.serving.answer import Send
from sightline.serving.caller import Addresses
from sightline.serving.envelope import App
from sightline.serving.facts import Scope, facts_of
from sightline.serving.hosts import Hosts
from sightline.serving.keys import Keys
from sightline.serving.origins import PREFLIGHT, Origins
from sightline.serving.problem import Problem
from sightline.serving.rate import Buckets
from sightline.serving.settings import ServingSettings
from sightline.serving.size import Receive, Sizes


def always_room() -> None:
    """Refuse nobody."""


class Guard:
    """Refuses what must not reach an endpoint, counts what does, and ends what takes too long."""

    def __init__(
        self,
        app: App,
        *,
        settings: ServingSettings,
        public: frozenset[str] = frozenset(),
        check_room: Callable[[], None] = always_room,
    ) -> None:
        """`check_room` refuses whoever asks for work that has no room: before the body is read, which is cheap."""
        self.app = app
        self.check_room = check_room
        self.limits = settings.limits
        self.hosts = Hosts((settings.host, *settings.allowed_hosts))
        self.origins = Origins(settings.allowed_origins)
        self.keys = Keys(settings.keys, read_keys=settings.read_keys, public=public)
        self.addresses = Addresses(settings.trusted_proxies)
        self.sizes = Sizes(settings.limits)
        self.rate = Buckets(
            settings.limits.requests_per_minute, what="requests", flag=settings.limits.flag("requests_per_minute")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or raise the problem with it."""
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
        facts = facts_of(scope)
        facts.caller = self.keys.check(scope) or self.addresses.caller(scope)
        if scope["path"] not in self.keys.public:
            self.rate.spend(facts.caller, 1)
        self.sizes.check(scope)
        if scope["method"] == "POST":
            self.check_room()
        await self.within_time(scope, self.sizes.counted(receive), send)

    async def within_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or stop when the time for one request is over."""
        seconds, flag = self.limits.request_seconds, self.limits.flag("request_seconds")
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                await self.app(scope, receive, send)
        except TimeoutError:
            if not clock.expired():
                raise
            raise Problem(
                504, f"this took longer than {seconds:g} seconds ({flag} raises the limit)", code="timeout"
            ) from None
