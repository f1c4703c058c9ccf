"""A small app with a route of every shape, so that everything around routes can be tested without a model."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import StreamingResponse

from sightline.serving.http import (
    Application,
    Body,
    Limits,
    Router,
    ServingSettings,
    accepts_form,
    charge,
    create_app,
    get_context,
)

from .wire import PATIENCE


class Echo(Body):
    text: str = Field(max_length=10_000)
    times: int = Field(default=1, ge=1, le=8)
    weight: float | None = Field(default=None, ge=0, le=1)
    kind: Literal["plain", "loud"] = "plain"
    tags: list[str] = Field(default=[], max_length=4)


class Echoed(Body):
    text: str
    times: int


class Form(Body):
    q: str = Field(max_length=1000)
    target: Literal["de", "fr"]
    alternatives: Annotated[int, Field(ge=0, le=4)] = 0


class Witness:
    """What happened inside the endpoints, and a gate before which the slow ones wait."""

    def __init__(self) -> None:
        self.begun = self.finished = self.cancelled = self.sent = 0
        self.is_open = False
        self.changed = threading.Condition()
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def note(self, what: str, amount: int = 1) -> None:
        """Count something."""
        with self.changed:
            setattr(self, what, getattr(self, what) + amount)
            self.changed.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the counts are as they should be."""
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE), vars(self)

    async def gate(self) -> None:
        """Wait until the gate is opened."""
        event = asyncio.Event()
        with self.changed:
            if self.is_open:
                return
            self.waiting.append((asyncio.get_running_loop(), event))
        await event.wait()

    def open(self) -> None:
        """Let waiting requests continue, and all that come."""
        with self.changed:
            self.is_open = True
            for loop, event in self.waiting:
                loop.call_soon_threadsafe(event.set)


def example_router() -> Router:
    """Routes that respond at once, with every kind of body and parameter."""
    router = Router()

    @router.post("/v1/echo")
    async def echo(body: Echo) -> Echoed:
        return Echoed(text=body.text, times=body.times)

    @router.get("/v1/things/{name}")
    async def thing(
        name: Annotated[str, Path(pattern="^[a-z0-9._-]{1,64}$")], size: Annotated[int, Query(ge=1, le=100)] = 1
    ) -> Echoed:
        return Echoed(text=name, times=size)

    @router.post("/translate")
    @accepts_form
    async def translate(body: Form) -> Echoed:
        return Echoed(text=body.q, times=body.alternatives)

    @router.post(
        "/v1/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {}}}}},
    )
    async def stream(body: Echo) -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            for _ in range(body.times):
                yield b"data: x\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return router


def odd_router(witness: Witness) -> Router:
    """Routes that take long or send much."""
    router = Router()

    @router.post("/v1/slow")
    async def slow(body: Echo) -> Echoed:
        witness.note("begun")
        try:
            await witness.gate()
        except asyncio.CancelledError:
            witness.note("cancelled")
            raise
        witness.note("finished")
        return Echoed(text=body.text, times=body.times)

    @router.get("/v1/endless")
    async def endless() -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            witness.note("begun")
            try:
                while not witness.is_open:
                    witness.note("sent", 10_000)
                    yield b"x" * 10_000
                    await asyncio.sleep(0)
            finally:
                witness.note("cancelled")

        return StreamingResponse(events(), media_type="text/event-stream")

    @router.get("/v1/large")
    async def large() -> StreamingResponse:
        async def whole() -> AsyncIterator[bytes]:
            yield b"x" * 3_000_000

        return StreamingResponse(whole())

    return router


def telling_router() -> Router:
    """Routes that return the client's id, and charge tokens."""
    router = Router()

    @router.get("/v1/client")
    async def client(request: Request) -> dict[str, str]:
        return {"client_id": get_context(request).client_id, "id": get_context(request).id}

    @router.get("/v1/charge")
    async def charged(request: Request, tokens: int) -> dict[str, int]:
        charge(request, tokens)
        return {"tokens": tokens}

    return router


def example_app(witness: Witness | None = None, limits: Limits | None = None, **settings: object) -> Application:
    """The app on a free port of this machine."""
    chosen = ServingSettings(port=0, limits=limits or Limits(), **settings)  # type: ignore[arg-type]
    return create_app(chosen, routers=[example_router(), odd_router(witness or Witness()), telling_router()])
