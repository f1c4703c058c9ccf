"""How large a body may be: by what it says of itself, and by what really comes."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sightline.serving.facts import Scope, header_values
from sightline.serving.limits import Limits
from sightline.serving.problem import Problem

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Sizes:
    """The limit on bodies."""

    def __init__(self, limits: Limits) -> None:
        self.most = limits.body_bytes
        self.flag = limits.flag("body_bytes")

    def check(self, scope: Scope) -> None:
        """Refuse a body by the length it claims."""
        given = header_values(scope, b"content-length")
        if len(given) > 1 or not all(length.isdigit() and len(length) <= 18 for length in given):
            raise Problem(400, "Content-Length must be there once, as a whole number", code="bad_content_length")
        if given and int(given[0]) > self.most:
            raise self.too_large()

    def counted(self, receive: Receive) -> Receive:
        """Return a `receive` that refuses more than the limit, whatever the body claimed."""
        received = 0

        async def receive_counted() -> MutableMapping[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.most:
                raise self.too_large()
            return message

        return receive_counted

    def too_large(self) -> Problem:
        """Return the refusal."""
        return Problem(
            413, f"the body is larger than {self.most:,} bytes ({self.flag} raises the limit)", code="body_too_large"
        )
