"""Server-sent events: an answer in pieces, each a line of JSON."""

import json
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from sightline.errors import RefusedError
from sightline.serving.problem import Problem, refusal

DONE = "data: [DONE]\n\n"


class EventStream(StreamingResponse):
    """The events of an iterator, and an end that clients wait for; what goes wrong on the way is an event as well."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[object]) -> None:
        super().__init__(lines(events), headers={"cache-control": "no-store", "x-accel-buffering": "no"})


async def lines(events: AsyncIterator[object]) -> AsyncIterator[str]:
    """Yield the events as the format has them."""
    try:
        async for event in events:
            yield f"data: {json.dumps(event, ensure_ascii=False, allow_nan=False)}\n\n"
    except (Problem, RefusedError) as error:
        problem = error if isinstance(error, Problem) else refusal(error)
        yield f"data: {problem.body().decode('ascii')}\n\n"
    yield DONE
