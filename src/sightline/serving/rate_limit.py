"""Rate limits: a token bucket for each client, refilled at a constant rate."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable

from sightline.serving.problem import Problem

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
