"""Server-sent events: a response in chunks, each a line of JSON."""

import json
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from sightline.errors import RefusedError
from sightline.serving.problem import Problem, refusal

DONE = "data: [DONE]\n\n"


class EventStream(StreamingResponse):
    """Streams the events of an iterator, then [DONE]; an error on the way is an event as well."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[object]) -> None:
        super().__init__(encode_events(events), headers={"cache-control": "no-store", "x-accel-buffering": "no"})


async def encode_events(events: AsyncIterator[object]) -> AsyncIterator[str]:
    """Yield the events in the wire format."""
    try:
        async for event in events:
            yield f"data: {json.dumps(event, ensure_ascii=False, allow_nan=False)}\n\n"
    except (Problem, RefusedError) as error:
        problem = error if isinstance(error, Problem) else refusal(error)
        yield f"data: {problem.body().decode('ascii')}\n\n"
    yield DONE
