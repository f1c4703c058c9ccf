"""The size limit of request bodies: by Content-Length, and by the bytes that arrive."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sightline.serving.limits import Limits
from sightline.serving.problem import Problem
from sightline.serving.request_context import Scope, header_values

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BodyLimit:
    """Refuses bodies that are too large."""

    def __init__(self, limits: Limits) -> None:
        self.max_bytes = limits.body_bytes
        self.flag = limits.flag("body_bytes")

    def check(self, scope: Scope) -> None:
        """Refuse a body by its Content-Length."""
        given = header_values(scope, b"content-length")
        if len(given) > 1 or not all(length.isdigit() and len(length) <= 18 for length in given):
            raise Problem(400, "Content-Length must be given once, as an integer", code="bad_content_length")
        if given and int(given[0]) > self.max_bytes:
            raise self.too_large()

    def limit_receive(self, receive: Receive) -> Receive:
        """Return a `receive` that counts bytes and refuses more than the limit."""
        received = 0

        async def receive_counted() -> MutableMapping[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise self.too_large()
            return message

        return receive_counted

    def too_large(self) -> Problem:
        """Return the refusal."""
        return Problem(
            413,
            f"the body is larger than {self.max_bytes:,} bytes ({self.flag} raises the limit)",
            code="body_too_large",
        )
