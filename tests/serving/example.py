"""A small app with a route of every shape, so that everything around routes can be tested without a model."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import StreamingResponse

from sightline.serving import (
    Application,
    Body,
    Limits,
    Router,
    ServingSettings,
    accepts_form,
    charge,
    create_app,
    facts_of,
)


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


@dataclass
class Witness:
    """What happened inside the endpoints."""

    begun: int = 0
    finished: int = 0
    cancelled: int = 0
    sent: int = 0
    release: list[bool] = field(default_factory=list)


def example_router() -> Router:
    """Routes that answer at once, by every kind of body and parameter."""
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
    """Routes that take long, send much, or tell who asked."""
    router = Router()

    @router.post("/v1/slow")
    async def slow(body: Echo) -> Echoed:
        witness.begun += 1
        try:
            while not witness.release:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            witness.cancelled += 1
            raise
        witness.finished += 1
        return Echoed(text=body.text, times=body.times)

    @router.get("/v1/endless")
    async def endless() -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            witness.begun += 1
            try:
                while not witness.release:
                    witness.sent += 10_000
                    yield b"x" * 10_000
                    await asyncio.sleep(0)
            finally:
                witness.cancelled += 1

        return StreamingResponse(events(), media_type="text/event-stream")

    @router.get("/v1/large")
    async def large() -> StreamingResponse:
        async def whole() -> AsyncIterator[bytes]:
            yield b"x" * 3_000_000

        return StreamingResponse(whole())

    return router


def telling_router() -> Router:
    """Routes that tell who asked, and count what was asked for."""
    router = Router()

    @router.get("/v1/caller")
    async def caller(request: Request) -> dict[str, str]:
        return {"caller": facts_of(request).caller, "id": facts_of(request).id}

    @router.get("/v1/charge")
    async def charged(request: Request, tokens: int) -> dict[str, int]:
        charge(request, tokens)
        return {"tokens": tokens}

    return router


def example_app(witness: Witness | None = None, limits: Limits | None = None, **settings: object) -> Application:
    """The app on a free port of this machine."""
    chosen = ServingSettings(port=0, limits=limits or Limits(), **settings)  # type: ignore[arg-type]
    return create_app(chosen, routers=[example_router(), odd_router(witness or Witness()), telling_router()])
