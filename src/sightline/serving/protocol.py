"""The connection itself: deadlines for what must arrive and for what must be taken, and caps on what is kept meanwhile.

uvicorn waits for ever for the rest of a header, a body or a reader, keeps headers of any size, and lets two Hosts
through. This is its protocol for httptools with all of that ended. A refusal here looks like any other: the same JSON,
the same headers, an id.
"""

import asyncio
import http
import logging
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sightline.serving.answer import with_headers
from sightline.serving.facts import Facts
from sightline.serving.limits import Limits
from sightline.serving.problem import Problem

HIGH_WATER = 32 << 10
LOW_WATER = 8 << 10
LINGER = 2.0
MOST_WAITING = 32

access = logging.getLogger("sightline.access")


class HeadRefusedError(Exception):
    """Raised inside the parser to stop it; the problem is kept beside."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection, with deadlines. Times are absolute: a byte now and then does not prolong them.

    A connection is silent (nothing of a request has come), in a head, in a body, or has a request that is complete;
    only in the last case, while it is being answered, does no deadline run.
    """

    limits: Limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the first deadline, or turn the client away if there are too many."""
        self.in_head = False
        self.in_body = False
        self.deaf = False
        self.head_size = 0
        self.head_received = 0
        self.problem: Problem | None = None
        self.running: RequestResponseCycle | None = None
        self.receive_timer: asyncio.TimerHandle | None = None
        self.write_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self.access_log = False  # uvicorn's would have the queries in it, wherever somebody listens to its logger
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        if len(self.connections) > self.limits.connections:
            self.refuse(too_many(self.limits))
        else:
            self.expect(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request being answered (uvicorn tells the last one that came) that nobody waits for it."""
        self.expect(None)
        self.stop_write_timer()
        super().connection_lost(exc)
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    # What arrives

    def expect(self, seconds: int | float | None) -> None:
        """Begin the deadline for what must arrive next; None: nothing must."""
        if self.receive_timer is not None:
            self.receive_timer.cancel()
        self.receive_timer = None if seconds is None else self.loop.call_later(seconds, self.too_slow)

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether the limits hold."""
        self._unset_keepalive_if_required()
        if self.deaf:
            return
        in_head_before = self.in_head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # answered as an ordinary request, after which the connection is closed
        except httptools.HttpParserError:
            self.refuse(self.problem or malformed())
            return
        if in_head_before and self.in_head:
            self.head_received += len(data)
            if self.head_received > self.limits.header_bytes:
                self.refuse(head_too_large(self.limits))
                return
        if self.receive_timer is None and not self.in_body and not self.busy():
            self.expect(self.limits.header_seconds)

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self.in_head = True
        self.head_size = self.head_received = 0
        self.expect(self.limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        """Keep the address, if it is not too long."""
        self.count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, if there are not too many."""
        self.count_head(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > self.limits.header_fields:
            self.stop_parser(too_many_fields(self.limits))

    def count_head(self, size: int) -> None:
        """Count what the head takes."""
        self.head_size += size
        if self.head_size > self.limits.header_bytes:
            self.stop_parser(head_too_large(self.limits))

    def on_headers_complete(self) -> None:
        """Check the head as a whole, and begin the body."""
        self.expect(None)
        if not self.url.startswith(b"/"):
            self.stop_parser(Problem(400, "an address must begin with /", code="bad_address"))
        if sum(name == b"host" for name, _ in self.headers) != 1:
            self.stop_parser(Problem(400, "a request needs exactly one Host header", code="bad_host"))
        if self.parser.get_http_version() not in ("1.0", "1.1") or len(self.pipeline) >= MOST_WAITING:
            self.stop_parser(malformed())
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False
        self.in_head = False
        self.in_body = True
        self.expect(self.limits.body_seconds)

    def on_message_complete(self) -> None:
        """End the body: what follows is the server's to do."""
        self.in_body = False
        self.expect(None)
        super().on_message_complete()

    def stop_parser(self, problem: Problem) -> None:
        """Leave the parser with a problem."""
        self.problem = problem
        raise HeadRefusedError

    def too_slow(self) -> None:
        """End a connection whose client does not send what it must; one that has said nothing is told nothing."""
        self.receive_timer = None
        if self.in_head or self.in_body:
            part, limit = ("body", "body_seconds") if self.in_body else ("head", "header_seconds")
            seconds, flag = getattr(self.limits, limit), self.limits.flag(limit)
            told = f"the {part} of the request did not arrive within {seconds:g} seconds ({flag} raises the limit)"
            self.refuse(Problem(408, told, code="too_slow"))
        elif not self.busy():
            self.transport.close()

    # What is answered

    def busy(self) -> bool:
        """Return whether a request is being answered."""
        return self.running is not None and not self.running.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def refuse(self, problem: Problem) -> None:
        """Hear no more, answer what is being received if that can be done, and close.

        A request that came before it gets its answer first: the connection is closed after that.
        """
        self.deaf = True
        self.expect(None)
        own = self.in_body and self.running is self.cycle
        if self.busy() and self.running is not None and not own:
            self.running.keep_alive = False
            return
        if not own or not self.cycle.response_started:
            self.transport.write(raw(problem))
        if own:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.linger()

    def linger(self) -> None:
        """Close so that the client can still read the answer: a plain close while it sends would take it away."""
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
            self.start_write_timer(LINGER)
        else:
            self.transport.close()
            self.start_write_timer(self.limits.write_seconds)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        """Refuse in our own words."""
        self.refuse(malformed())

    def on_response_complete(self) -> None:
        """Go on to the next request; what is not taken in time is thrown away with the connection."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.start_write_timer(self.limits.write_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing more was asked."""
        super().timeout_keep_alive_handler()
        self.start_write_timer(self.limits.write_seconds)

    def pause_writing(self) -> None:
        """Begin the deadline for the reader, as the buffer is full."""
        super().pause_writing()
        self.start_write_timer(self.limits.write_seconds)

    def resume_writing(self) -> None:
        """End it, as there is room again."""
        super().resume_writing()
        if not self.transport.is_closing():
            self.stop_write_timer()

    def start_write_timer(self, seconds: int | float) -> None:
        """Throw the connection away after this time, unless something happens before."""
        self.stop_write_timer()
        self.write_timer = self.loop.call_later(seconds, self.transport.abort)

    def stop_write_timer(self) -> None:
        """Keep the connection."""
        if self.write_timer is not None:
            self.write_timer.cancel()
        self.write_timer = None


def protocol_for(limits: Limits) -> type[GuardedProtocol]:
    """Return the protocol with these limits, as uvicorn wants it: a class."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})


def raw(problem: Problem) -> bytes:
    """Return a whole answer as it goes over the wire, and write the line of the log."""
    facts = Facts()
    body = problem.body()
    headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in problem.all_headers().items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    head = b"".join(b"%s: %s\r\n" % pair for pair in with_headers([*headers, (b"connection", b"close")], facts))
    access.info("- - %d 0ms %s", problem.status, facts.id)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (problem.status, http.HTTPStatus(problem.status).phrase.encode(), head, body)


def malformed() -> Problem:
    """Return the refusal of what is not HTTP."""
    return Problem(400, "this is not a valid HTTP/1.1 request", code="bad_request")


def too_many(limits: Limits) -> Problem:
    """Return the refusal of one more client."""
    told = f"{limits.connections:,} clients are connected already ({limits.flag('connections')} raises the limit)"
    return Problem(503, told, code="overloaded", retry_after=1)


def head_too_large(limits: Limits) -> Problem:
    """Return the refusal of a head that goes on and on."""
    most, flag = limits.header_bytes, limits.flag("header_bytes")
    told = f"the head of the request is larger than {most:,} bytes ({flag} raises the limit)"
    return Problem(431, told, code="head_too_large")


def too_many_fields(limits: Limits) -> Problem:
    """Return the refusal of too many headers."""
    told = (
        f"the request has more than {limits.header_fields:,} headers ({limits.flag('header_fields')} raises the limit)"
    )
    return Problem(431, told, code="too_many_headers")
