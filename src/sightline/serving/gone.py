"""Work stops when nobody waits for it: a client that has gone cancels what was done for it.

Servers cancel a stream when its reader goes, but let an ordinary endpoint compute to the end. Every route made by
`sightline.serving.Router` runs inside `CancelledWhenGone`, so an endpoint needs to do nothing but be cancellable.
"""

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect, Request


class CancelledWhenGone:
    """`async with CancelledWhenGone(request):` cancels its body when the client disconnects.

    The body of the request must have been read before. Leaves with `ClientDisconnect`, which nobody needs to answer.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.gone = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be cancelled")
        self.task = task
        self.cancelling = task.cancelling()
        self.watcher = asyncio.create_task(self.watch())

    async def watch(self) -> None:
        """Wait until the client is gone, and say so."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watcher.cancel()
        if self.gone and self.task.uncancel() <= self.cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnect from error


def cancelled_when_gone(request: Request) -> CancelledWhenGone:
    """Return the block that is cancelled when the client goes, for endpoints that are no `Router`'s."""
    return CancelledWhenGone(request)
