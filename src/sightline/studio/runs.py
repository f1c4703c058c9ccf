"""/studio-api/runs: the training runs in a folder: metrics, settings, and the models of their snapshots."""

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
from sightline.serving.api import Submitter
from sightline.studio.assets import TYPES
from sightline.studio.runs_metrics import read_since
from sightline.studio.runs_table import RunsTable
from sightline.studio.timelapse import Timelapse, TimelapseRequest
from sightline.training.metrics import FILE_NAME as METRICS

MAX_INPUT = 2_000
RUNS_ENABLED = "export const hasRuns = true;\n"
"""Served instead of static/runs_enabled.js, so that the header shows the view."""
MAX_NEW_TOKENS = 48
"""Tokens that the model of a snapshot may generate: an untrained one never ends."""


class TraceBody(Body):
    """A trace by the model of a snapshot."""

    step: Annotated[int, Field(ge=0, lt=1 << 53)] | None = Field(description="Of a snapshot; null for the best model.")
    input: Annotated[str, Field(max_length=MAX_INPUT)]
    to: Annotated[str, Field(max_length=40)] | None = None
    target: Annotated[str, Field(max_length=MAX_INPUT)] | None = None


def router(submitter: Submitter, root: Path) -> Router:
    """Return the routes of the view of runs."""
    routes = Router(include_in_schema=False)
    table, timelapse = RunsTable(root), Timelapse()

    @routes.get("/studio/runs_enabled.js")
    async def enabled() -> Response:
        return Response(RUNS_ENABLED, media_type=TYPES["js"], headers={"cache-control": "no-cache"})

    @routes.get("/studio-api/runs")
    async def runs() -> Response:
        return await json_response(lambda: {"runs": table.cards()})

    @routes.get("/studio-api/runs/{name}/metrics")
    async def metrics(
        name: str,
        since: Annotated[int, Query(ge=0, lt=1 << 53)] = 0,
        tag: Annotated[str, Query(max_length=8)] = "",
    ) -> Response:
        return await json_response(lambda: read_since(table.folder(name) / METRICS, since, tag))

    @routes.get("/studio-api/runs/{name}/settings")
    async def settings(name: str) -> Response:
        return await json_response(lambda: {"settings": table.settings(name)})

    @routes.post("/studio-api/runs/{name}/trace")
    async def trace(name: str, body: TraceBody, request: Request) -> Response:
        folder = await asyncio.to_thread(find_snapshot, table, name, body.step)
        charge(request, 1 + len(body.input) // 3)  # an estimate: the tokens are known once the model is loaded
        max_tokens = min(MAX_NEW_TOKENS, submitter.limits.new_tokens)
        traced = TimelapseRequest(body.step, body.input, body.to, body.target, max_tokens)
        # A unique key: requests are never batched, as each may load another model.
        [answer] = await submitter.call(object(), lambda many: [timelapse.trace(folder, one) for one in many], [traced])
        return Response(answer, media_type="application/octet-stream")

    return routes


def find_snapshot(table: RunsTable, name: str, step: int | None) -> Path:
    """Return the folder of a run that has a snapshot of this step (None: a best model)."""
    folder = table.folder(name)
    if not (table.has_model(folder) if step is None else step in table.steps(folder)):
        raise Problem(404, "this run has no snapshot at this step", param="step", code="snapshot_not_found")
    return folder


async def json_response(make: Callable[[], object]) -> Response:
    """Run file access in a thread; return strict JSON in ASCII, so that no text of a file can break it."""
    text = await asyncio.to_thread(lambda: json.dumps(make(), allow_nan=False))
    return Response(text, media_type="application/json")
