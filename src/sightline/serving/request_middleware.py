"""The outermost middleware: every request gets an id, a response, a log line and a place in the metrics."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect

from sightline.serving.body_limit import Receive
from sightline.serving.lifecycle import Lifecycle
from sightline.serving.metrics import Metrics
from sightline.serving.problem import Problem
from sightline.serving.request_context import Scope, get_context
from sightline.serving.response_sender import ResponseSender, Send

App = Callable[[Scope, Receive, Send], Awaitable[None]]

PROBES = frozenset({"/health", "/ready", "/metrics"})
CLIENT_CLOSED_REQUEST = 499
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = logging.getLogger("sightline.serving")
access = logging.getLogger("sightline.access")


class RequestMiddleware:
    """Responds whatever happens inside; details of internal errors go to the log only."""

    def __init__(self, app: App, *, lifecycle: Lifecycle, metrics: Metrics) -> None:
        self.app = app
        self.lifecycle = lifecycle
        labels = ("method", "route", "status")
        self.requests = metrics.counter("sightline_requests_total", "Requests handled.", labels)
        self.seconds = metrics.histogram("sightline_request_seconds", "Time to handle a request.", ("route",))
        metrics.callback_gauge(
            "sightline_requests_in_progress", "Requests in progress.", lambda: len(lifecycle.working)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; pass lifespan events on, and refuse websockets."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self.handle(scope, receive, ResponseSender(send, get_context(scope)))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def handle(self, scope: Scope, receive: Receive, sender: ResponseSender) -> None:
        """Respond, whatever happens, and record the request."""
        started = time.perf_counter()
        status = CLIENT_CLOSED_REQUEST
        try:
            with self.lifecycle.track():
                await self.respond(scope, receive, sender)
            status = sender.status or CLIENT_CLOSED_REQUEST
        finally:
            self.record(scope, status, time.perf_counter() - started)

    async def respond(self, scope: Scope, receive: Receive, sender: ResponseSender) -> None:
        """Run the app, and respond for it if it raises."""
        try:
            if self.lifecycle.stopping and scope["path"] not in PROBES:
                raise shutting_down()
            await self.app(scope, receive, sender.send)
        except Problem as problem:
            await sender.refuse(problem)
        except ClientDisconnect:
            return
        except BaseException as error:
            await self.handle_error(error, sender)

    async def handle_error(self, error: BaseException, sender: ResponseSender) -> None:
        """Respond for an app that failed: it was cancelled at shutdown, or it has a bug."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            if not self.lifecycle.expired:
                raise error
            await sender.refuse(shutting_down())
            return
        log.error("request %s failed", sender.context.id, exc_info=error)
        await sender.refuse(internal_error(sender.context.id))

    def record(self, scope: Scope, status: int, seconds: float) -> None:
        """Log the request (without query, body or key) and count it."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = str(getattr(scope.get("route"), "path", "none"))
        self.requests.add(method=method, route=route, status=str(status))
        self.seconds.observe(seconds, route=route)
        access.info("%s %s %d %.0fms %s", method, loggable_path(scope), status, seconds * 1000, get_context(scope).id)


def loggable_path(scope: Scope) -> str:
    """Return the path for the log: one line of printable ASCII characters."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    return re.sub(r"[^!-~]", "?", raw.decode("latin-1").partition("?")[0])[:200]


def internal_error(request_id: str) -> Problem:
    """Return the response to an internal error: the id under which the log has the details."""
    return Problem(500, f"internal error: the server's log has the details under {request_id}", code="internal_error")


def shutting_down() -> Problem:
    """Return the response while the server shuts down."""
    return Problem(503, "the server is shutting down", code="stopping", retry_after=5, headers={"connection": "close"})
