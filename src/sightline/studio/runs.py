"""/studio-api/runs: the training runs in a folder, their curves, their settings, and their models on the way."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.serving import Body, Problem, Router, charge
from sightline.serving.api import Desk
from sightline.studio.assets import TYPES
from sightline.studio.runs_lapse import Lapse, Question
from sightline.studio.runs_metrics import read_since
from sightline.studio.runs_table import RunsTable
from sightline.training.metrics import FILE_NAME as METRICS

LONGEST_INPUT = 2_000
OFFER = "export const hasRuns = true;\n"
"""Takes the place of static/runs_offered.js, by which the header knows that there is such a view."""
MOST_WRITTEN = 48
"""Tokens that a model of a snapshot writes: an untrained one knows no end."""


class TraceBody(Body):
    """What a model of a run is asked."""

    step: Annotated[int, Field(ge=0, lt=1 << 53)] | None = Field(description="A snapshot's; null is the kept model.")
    input: Annotated[str, Field(max_length=LONGEST_INPUT)]
    to: Annotated[str, Field(max_length=40)] | None = None
    target: Annotated[str, Field(max_length=LONGEST_INPUT)] | None = None


def router(desk: Desk, root: Path) -> Router:
    """Return the routes of what the view of runs asks."""
    routes = Router(include_in_schema=False)
    table, lapse = RunsTable(root), Lapse()

    @routes.get("/studio/runs_offered.js")
    async def offered() -> Response:
        return Response(OFFER, media_type=TYPES["js"], headers={"cache-control": "no-cache"})

    @routes.get("/studio-api/runs")
    async def runs() -> Response:
        return await told(lambda: {"runs": table.cards()})

    @routes.get("/studio-api/runs/{name}/metrics")
    async def metrics(
        name: str,
        since: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
        tag: Annotated[str, Query(max_length=8)] = "",
    ) -> Response:
        return await told(lambda: read_since(table.folder(name) / METRICS, since, tag))

    @routes.get("/studio-api/runs/{name}/settings")
    async def settings(name: str) -> Response:
        return await told(lambda: {"settings": table.settings(name)})

    @routes.post("/studio-api/runs/{name}/trace")
    async def trace(name: str, body: TraceBody, request: Request) -> Response:
        folder = await asyncio.to_thread(found, table, name, body.step)
        charge(request, 1 + len(body.input) // 3)  # what the tokens are is known once the model is open
        longest = min(MOST_WRITTEN, desk.limits.new_tokens)
        question = Question(body.step, body.input, body.to, body.target, longest)
        # A key of its own: a model is opened for each, one after the other.
        [answer] = await desk.call(object(), lambda asked: [lapse.trace(folder, one) for one in asked], [question])
        return Response(answer, media_type="application/octet-stream")

    return routes


def found(table: RunsTable, name: str, step: int | None) -> Path:
    """Return the folder of a run that has a model of this step."""
    folder = table.folder(name)
    if not (table.has_model(folder) if step is None else step in table.steps(folder)):
        raise Problem(404, "this run has no snapshot of this step", param="step", code="snapshot_not_found")
    return folder


async def told(make: Callable[[], object]) -> Response:
    """Read files beside the event loop; return strict JSON, in ASCII, so that no text of a file can break it."""
    text = await asyncio.to_thread(lambda: json.dumps(make(), allow_nan=False))
    return Response(text, media_type="application/json")
