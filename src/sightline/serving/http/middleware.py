"""The outermost middleware: every request gets an id, one response, a log line and a place in the metrics."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, HTTPConnection

from sightline.serving.http.metrics import Lifecycle, Metrics
from sightline.serving.http.problem import Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY = "sightline"
"""Where the context of a request is kept in its ASGI scope."""


@dataclass
class RequestContext:
    """Created when a request arrives, filled in by the guard, returned by `get_context`."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Sent as `x-request-id` and logged, so that a response can be found in the log."""
    client_id: str = "unknown"
    """`key-` and the first digits of the key's hash, or `address-` and the client's address."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Response headers besides those every response has."""


def get_context(request: HTTPConnection | Scope) -> RequestContext:
    """Return the context of a request or its ASGI scope; create it on first use."""
    scope = request.scope if isinstance(request, HTTPConnection) else request
    context = scope.setdefault(SCOPE_KEY, RequestContext())
    if not isinstance(context, RequestContext):
        raise TypeError(f"the key {SCOPE_KEY!r} of the request's scope is already in use")
    return context


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Return every value of one header."""
    return [value for key, value in scope["headers"] if key == name]


CHUNK_BYTES = 32 << 10
CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
CONTENT_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; script-src 'self'; "
    "img-src 'self' blob: data:"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class ResponseSender:
    """Wraps `send`: adds missing headers, records the status, and splits large bodies into chunks.

    A chunk is sent only when the write buffer has room again, so that a response takes no more memory than that,
    however slowly it is read.
    """

    def __init__(self, send: Send, context: RequestContext) -> None:
        self.next_send = send
        self.context = context
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            if any(CONTROL_CHARACTERS.search(value) for _, value in message.get("headers", [])):
                raise ValueError("a response header must be one line")  # before anything is sent
            self.status = message["status"]
            message = {**message, "headers": add_headers(list(message.get("headers", [])), self.context)}
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            while len(body) > CHUNK_BYTES:
                await self.next_send(
                    {"type": "http.response.body", "body": bytes(body[:CHUNK_BYTES]), "more_body": True}
                )
                body = memoryview(body)[CHUNK_BYTES:]
            message = {**message, "body": bytes(body)}
        await self.next_send(message)

    async def refuse(self, problem: Problem) -> None:
        """Respond with a problem, unless a response has started."""
        if self.status is not None:
            return
        body = problem.body()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **problem.all_headers()}
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})


def add_headers(headers: list[tuple[bytes, bytes]], context: RequestContext) -> list[tuple[bytes, bytes]]:
    """Return the headers with those every response has."""
    present = {name.lower() for name, _ in headers}
    more = [*SECURITY_HEADERS, *context.headers, (b"x-request-id", context.id.encode("ascii"))]
    return headers + [(name, value) for name, value in more if name not in present]


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
