"""The HTTP connection: timeouts for receiving and sending, and limits on what is buffered.

uvicorn waits forever for the rest of the headers, a body or a slow reader, buffers headers of any size, and accepts two
Host headers. This is its httptools protocol without these gaps. Refusals here look like all others: the same JSON, the
same headers, an id.
"""

import asyncio
import http
import logging
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sightline.serving.http.middleware import RequestContext, add_headers
from sightline.serving.http.problem import Problem
from sightline.serving.http.settings import Limits

HIGH_WATER = 32 << 10
LOW_WATER = 8 << 10
LINGER = 2.0
MAX_PIPELINED = 32

access = logging.getLogger("sightline.access")


class HeadRefusedError(Exception):
    """Raised inside the parser to stop it; `GuardedProtocol.problem` says why."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection, with deadlines. They are absolute: an occasional byte does not extend them.

    A connection is idle (no byte of a request has come), in the head (request line and headers), in the body, or has a
    complete request; only in the last case, while the request is handled, no deadline runs.
    """

    limits: Limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the first deadline, or refuse the client if there are too many connections."""
        self.in_head = False
        self.in_body = False
        self.is_refusing = False
        self.head_size = 0
        self.head_received = 0
        self.problem: Problem | None = None
        self.running: RequestResponseCycle | None = None
        self.receive_timer: asyncio.TimerHandle | None = None
        self.write_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self.access_log = False  # uvicorn's log would include query strings
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        if len(self.connections) > self.limits.connections:
            self.refuse(too_many(self.limits))
        else:
            self.expect(self.limits.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request in progress (uvicorn notifies the one that came last) of the disconnect."""
        self.expect(None)
        self.stop_write_timer()
        super().connection_lost(exc)
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    # Receiving

    def expect(self, seconds: int | float | None) -> None:
        """Start the deadline for what must arrive next; None for none."""
        if self.receive_timer is not None:
            self.receive_timer.cancel()
        self.receive_timer = None if seconds is None else self.loop.call_later(seconds, self.on_receive_timeout)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and check the limits."""
        self._unset_keepalive_if_required()
        if self.is_refusing:
            return
        in_head_before = self.in_head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # handled as an ordinary request, after which the connection is closed
        except httptools.HttpParserError:
            self.refuse(self.problem or malformed())
            return
        if in_head_before and self.in_head:
            self.head_received += len(data)
            if self.head_received > self.limits.header_bytes:
                self.refuse(head_too_large(self.limits))
                return
        if self.receive_timer is None and not self.in_body and not self.busy():
            self.expect(self.limits.header_timeout)

    def on_message_begin(self) -> None:
        """Start the head of a request."""
        super().on_message_begin()
        self.in_head = True
        self.head_size = self.head_received = 0
        self.expect(self.limits.header_timeout)

    def on_url(self, url: bytes) -> None:
        """Add the URL, unless it is too long."""
        self.count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, unless there are too many."""
        self.count_head(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > self.limits.header_fields:
            self.stop_parser(too_many_fields(self.limits))

    def count_head(self, size: int) -> None:
        """Count the bytes of the head."""
        self.head_size += size
        if self.head_size > self.limits.header_bytes:
            self.stop_parser(head_too_large(self.limits))

    def on_headers_complete(self) -> None:
        """Check the whole head, and start the body."""
        self.expect(None)
        if not self.url.startswith(b"/"):
            self.stop_parser(Problem(400, "the path must begin with /", code="bad_address"))
        if sum(name == b"host" for name, _ in self.headers) != 1:
            self.stop_parser(Problem(400, "exactly one Host header is required", code="bad_host"))
        if self.parser.get_http_version() not in ("1.0", "1.1") or len(self.pipeline) >= MAX_PIPELINED:
            self.stop_parser(malformed())
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        self.in_head = False
        self.in_body = True
        self.expect(self.limits.body_timeout)

    def on_message_complete(self) -> None:
        """End the body and its deadline."""
        self.in_body = False
        self.expect(None)
        super().on_message_complete()

    def stop_parser(self, problem: Problem) -> None:
        """Stop the parser with a problem."""
        self.problem = problem
        raise HeadRefusedError

    def on_receive_timeout(self) -> None:
        """Refuse an unfinished request; close a connection on which no request has started."""
        self.receive_timer = None
        if self.in_head or self.in_body:
            part, limit = ("body", "body_timeout") if self.in_body else ("headers", "header_timeout")
            seconds, flag = getattr(self.limits, limit), self.limits.flag(limit)
            message = f"request timeout: no complete {part} within {seconds:g} seconds ({flag} raises the limit)"
            self.refuse(Problem(408, message, code="too_slow"))
        elif not self.busy():
            self.transport.close()

    # Responding

    def busy(self) -> bool:
        """Return whether a request is in progress."""
        return self.running is not None and not self.running.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def refuse(self, problem: Problem) -> None:
        """Ignore further input, respond to the request being received if that is possible, and close.

        A request already in progress gets its response first; then the connection is closed.
        """
        self.is_refusing = True
        self.expect(None)
        own = self.in_body and self.running is self.cycle
        if self.busy() and self.running is not None and not own:
            self.running.keep_alive = False
            return
        if not own or not self.cycle.response_started:
            self.transport.write(encode_response(problem))
        if own:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.linger()

    def linger(self) -> None:
        """Close so that the client can still read the response: closing while it sends would reset the connection."""
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self.start_write_timer(LINGER)
        else:
            self.transport.close()
            self.start_write_timer(self.limits.write_timeout)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's message is not used
        """Refuse with our own message."""
        self.refuse(malformed())

    def on_response_complete(self) -> None:
        """Continue with the next request; if the connection closes, give the client time to read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.start_write_timer(self.limits.write_timeout)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self.start_write_timer(self.limits.write_timeout)

    def pause_writing(self) -> None:
        """Start the deadline for the reader when the buffer is full."""
        super().pause_writing()
        self.start_write_timer(self.limits.write_timeout)

    def resume_writing(self) -> None:
        """Stop the deadline when the buffer has room again."""
        super().resume_writing()
        if not self.transport.is_closing():
            self.stop_write_timer()

    def start_write_timer(self, seconds: int | float) -> None:
        """Abort the connection after this time, unless the timer is stopped."""
        self.stop_write_timer()
        self.write_timer = self.loop.call_later(seconds, self.transport.abort)

    def stop_write_timer(self) -> None:
        """Stop the timer that would abort the connection."""
        if self.write_timer is not None:
            self.write_timer.cancel()
        self.write_timer = None


def protocol_for(limits: Limits) -> type[GuardedProtocol]:
    """Return the protocol class with these limits; uvicorn takes a class."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})


def encode_response(problem: Problem) -> bytes:
    """Return the bytes of a whole response, and log it."""
    context = RequestContext()
    body = problem.body()
    headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in problem.all_headers().items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    head = b"".join(b"%s: %s\r\n" % pair for pair in add_headers([*headers, (b"connection", b"close")], context))
    access.info("- - %d 0ms %s", problem.status, context.id)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (problem.status, http.HTTPStatus(problem.status).phrase.encode(), head, body)


def malformed() -> Problem:
    """Return the refusal of invalid HTTP."""
    return Problem(400, "the request is not valid HTTP/1.1", code="bad_request")


def too_many(limits: Limits) -> Problem:
    """Return the refusal of a connection above the limit."""
    message = f"too many connections: {limits.connections:,} are open ({limits.flag('connections')} raises the limit)"
    return Problem(503, message, code="overloaded", retry_after=1)


def head_too_large(limits: Limits) -> Problem:
    """Return the refusal of headers that are too large."""
    size, flag = limits.header_bytes, limits.flag("header_bytes")
    message = f"the URL and headers are larger than {size:,} bytes ({flag} raises the limit)"
    return Problem(431, message, code="head_too_large")


def too_many_fields(limits: Limits) -> Problem:
    """Return the refusal of too many headers."""
    message = (
        f"the request has more than {limits.header_fields:,} headers ({limits.flag('header_fields')} raises the limit)"
    )
    return Problem(431, message, code="too_many_headers")
