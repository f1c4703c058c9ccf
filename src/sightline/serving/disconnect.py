"""Cancel an endpoint when its client disconnects.

Servers cancel a stream when its reader disconnects, but let an ordinary endpoint compute to the end. Every route of
`sightline.serving.Router` runs inside `CancelOnDisconnect`, so an endpoint only needs to be cancellable.
"""

import asyncio
from types import TracebackType

from starlette.requests import ClientDisconnect, Request


class CancelOnDisconnect:
    """`async with CancelOnDisconnect(request):` cancels its body when the client disconnects.

    The body of the request must have been read before. Raises `ClientDisconnect`, which needs no response.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.disconnected = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only an asyncio task can be cancelled")
        self.task = task
        self.cancelling = task.cancelling()
        self.watcher = asyncio.create_task(self.watch())

    async def watch(self) -> None:
        """Wait until the client disconnects, and cancel the task."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self.task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watcher.cancel()
        if self.disconnected and self.task.uncancel() <= self.cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnect from error
