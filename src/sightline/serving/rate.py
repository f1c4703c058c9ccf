"""How often one client may ask: a bucket for each, which fills evenly and from which every request takes."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable

from sightline.serving.problem import Problem

MOST_CALLERS = 10_000


def time_of_the_loop() -> float:
    """Return the time by the clock of the event loop, which all deadlines follow."""
    return asyncio.get_running_loop().time()


class Buckets:
    """One bucket for each caller, holding what may be spent in a minute, for the callers of late.

    A caller that is forgotten begins with a full bucket: it has not asked while thousands of others have.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        what: str,
        flag: str,
        clock: Callable[[], float] = time_of_the_loop,
        most: int = MOST_CALLERS,
    ) -> None:
        self.per_minute = per_minute
        self.what = what
        self.flag = flag
        self.clock = clock
        self.most = most
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str, amount: int) -> None:
        """Take from the caller's bucket, or refuse with the time after which there is enough.

        More than a whole bucket is given when the bucket is full; the next request then waits for the debt.
        """
        if not self.per_minute:
            return
        now = self.clock()
        level, since = self.buckets.get(caller, (float(self.per_minute), now))
        level = min(float(self.per_minute), level + (now - since) * self.per_minute / 60)
        missing = min(amount, self.per_minute) - level
        if missing <= 0:
            level -= amount
        self.buckets[caller] = (level, now)
        self.buckets.move_to_end(caller)
        while len(self.buckets) > self.most:
            self.buckets.popitem(last=False)
        if missing > 0:
            raise Problem(
                429,
                f"this server gives each client {self.per_minute:,} {self.what} a minute ({self.flag} raises it)",
                code="rate_limit_exceeded",
                retry_after=max(1, math.ceil(missing * 60 / self.per_minute)),
            )
