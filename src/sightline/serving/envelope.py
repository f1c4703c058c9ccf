"""The outermost layer of the app: every request gets an id, an answer, a line in the log and a place in the figures."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect

from sightline.serving.answer import Answer, Send
from sightline.serving.facts import Scope, facts_of
from sightline.serving.lifecycle import Lifecycle
from sightline.serving.metrics import Metrics
from sightline.serving.problem import Problem
from sightline.serving.size import Receive

App = Callable[[Scope, Receive, Send], Awaitable[None]]

PROBES = frozenset({"/health", "/ready", "/metrics"})
GONE = 499
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = logging.getLogger("sightline.serving")
access = logging.getLogger("sightline.access")


class Envelope:
    """Whatever happens inside, the client gets one JSON answer, and only the log learns the details."""

    def __init__(self, app: App, *, lifecycle: Lifecycle, metrics: Metrics) -> None:
        self.app = app
        self.lifecycle = lifecycle
        labels = ("method", "route", "status")
        self.requests = metrics.counter("sightline_requests_total", "Requests answered.", labels)
        self.seconds = metrics.histogram("sightline_request_seconds", "Time to answer a request.", ("route",))
        metrics.asked("sightline_requests_in_progress", "Requests being answered.", lambda: len(lifecycle.working))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or pass on what is none."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self.handle(scope, receive, Answer(send, facts_of(scope)))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def handle(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Answer, whatever happens, and write it down."""
        begun = time.perf_counter()
        status = GONE
        try:
            with self.lifecycle.at_work():
                await self.answered(scope, receive, answer)
            status = answer.status or GONE
        finally:
            self.write_down(scope, status, time.perf_counter() - begun)

    async def answered(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Let the app answer, and answer for it if it does not."""
        try:
            if self.lifecycle.stopping and scope["path"] not in PROBES:
                raise stopping()
            await self.app(scope, receive, answer.send)
        except Problem as problem:
            await answer.refuse(problem)
        except ClientDisconnect:
            return
        except BaseException as error:
            await self.failed(error, answer)

    async def failed(self, error: BaseException, answer: Answer) -> None:
        """Answer for an app that broke off: it was cancelled because time is up, or it has a bug."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            if not self.lifecycle.expired:
                raise error
            await answer.refuse(stopping())
            return
        log.error("request %s failed", answer.facts.id, exc_info=error)
        await answer.refuse(internal(answer.facts.id))

    def write_down(self, scope: Scope, status: int, seconds: float) -> None:
        """Write the line of the log (without query, body or key) and count."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = str(getattr(scope.get("route"), "path", "none"))
        self.requests.add(method=method, route=route, status=str(status))
        self.seconds.observe(seconds, route=route)
        access.info("%s %s %d %.0fms %s", method, told_path(scope), status, seconds * 1000, facts_of(scope).id)


def told_path(scope: Scope) -> str:
    """Return the address for the log: one line of plain characters, however it was written."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    return re.sub(r"[^!-~]", "?", raw.decode("latin-1").partition("?")[0])[:200]


def internal(request_id: str) -> Problem:
    """Return what a client is told of a bug: nothing but where the log tells more."""
    return Problem(
        500, f"something went wrong in the server; its log tells more under {request_id}", code="internal_error"
    )


def stopping() -> Problem:
    """Return what is said while the server stops."""
    return Problem(503, "the server is stopping", code="stopping", retry_after=5, headers={"connection": "close"})
