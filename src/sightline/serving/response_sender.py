"""Sends responses: adds the headers every response has, and splits large bodies into chunks."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sightline.serving.problem import Problem
from sightline.serving.request_context import RequestContext

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

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
