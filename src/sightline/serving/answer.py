"""An answer on its way out: with the headers every answer has, in pieces that a slow reader can hold up."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sightline.serving.facts import Facts
from sightline.serving.problem import Problem

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

PIECE = 32 << 10
BREAKING = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; script-src 'self'; "
    "img-src 'self' blob: data:"
)
SECURITY: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Answer:
    """Wraps `send`: adds headers that are not there yet, notes the status, and cuts large bodies into pieces.

    A piece is handed on only when the one before has left the buffer so far that there is room, so that an answer
    never takes more memory than that, however slowly it is read.
    """

    def __init__(self, send: Send, facts: Facts) -> None:
        self.onward = send
        self.facts = facts
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        """Hand a part of the answer on."""
        if message["type"] == "http.response.start":
            if any(BREAKING.search(value) for _, value in message.get("headers", [])):
                raise ValueError("a header of an answer must be one line")  # before anything is on its way
            self.status = message["status"]
            message = {**message, "headers": with_headers(list(message.get("headers", [])), self.facts)}
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            while len(body) > PIECE:
                await self.onward({"type": "http.response.body", "body": bytes(body[:PIECE]), "more_body": True})
                body = memoryview(body)[PIECE:]
            message = {**message, "body": bytes(body)}
        await self.onward(message)

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem, if nothing was answered yet."""
        if self.status is not None:
            return
        body = problem.body()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **problem.all_headers()}
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})


def with_headers(headers: list[tuple[bytes, bytes]], facts: Facts) -> list[tuple[bytes, bytes]]:
    """Return the headers with those every answer has."""
    there = {name.lower() for name, _ in headers}
    more = [*SECURITY, *facts.headers, (b"x-request-id", facts.id.encode("ascii"))]
    return headers + [(name, value) for name, value in more if name not in there]
