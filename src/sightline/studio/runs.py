"""/studio-api/runs: the training runs in a folder: metrics, settings, and traces by the model of each snapshot."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.errors import ModelFileError
from sightline.pipelines import Pipeline
from sightline.runs.folder import MODEL, list_snapshots, pipeline_at
from sightline.serving.api import Submitter
from sightline.serving.http import Body, Problem, Router, charge
from sightline.studio.runs_table import RunsTable, Stamp, read_since, stamp_of
from sightline.tracing.page import pack_bytes
from sightline.training.metrics import METRICS

MAX_INPUT = 2_000
"""Characters of a text to trace."""
MAX_TOKENS = 200
"""Tokens of it."""
MAX_NEW_TOKENS = 48
"""Tokens that the model of a snapshot may generate: an untrained one never ends."""
MAX_MODEL_BYTES = 512 << 20
MAX_TRACE_BYTES = 64 << 20
N_CANDIDATES = 5
N_CANDIDATES_UNFORCED = 100
"""Of a model that does not generate text: the prediction of the last model is searched among so many candidates."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class TimelapseRequest:
    """The trace that is requested of each model of a run."""

    step: int | None
    """Step of a snapshot; None for the best model of the run."""
    input: str
    to: str | None
    target: str | None
    """Forced output; None lets the model generate its own."""
    max_tokens: int


class ByteLimitedCache(Generic[Value]):
    """A least-recently-used cache bounded by the total size of its values; the newest always stays."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """Return the cached value of a key, or make it."""
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key][0]
        made = make()
        self.entries[key] = (made, size(made))
        while len(self.entries) > 1 and sum(n_bytes for _, n_bytes in self.entries.values()) > self.max_bytes:
            self.entries.popitem(last=False)
        return made


class Timelapse:
    """Traces by the snapshots of all runs, cached; used only in the one thread in which all models of a server run."""

    def __init__(self) -> None:
        self.models: ByteLimitedCache[Pipeline] = ByteLimitedCache(MAX_MODEL_BYTES)
        self.traces: ByteLimitedCache[bytes] = ByteLimitedCache(MAX_TRACE_BYTES)

    def trace(self, folder: Path, request: TimelapseRequest) -> bytes:
        """Return the trace by the model of a step, in the form that the drawing modules read."""
        key = self.key(folder, request.step)
        return self.traces.get((*key, request), lambda: self._trace(key, folder, request), len)

    def key(self, folder: Path, step: int | None) -> tuple[Path, Stamp, int | None, Stamp]:
        """Return a key that changes when the run, or the model of this step, is replaced by another."""
        folders = list_snapshots(folder)
        model = folder / MODEL if step is None else folders.get(step, folder)
        first = folders.get(0, folder)
        return folder, stamp_of(first / "config.json"), step, stamp_of(model / "config.json")

    def _trace(self, key: tuple[Path, Stamp, int | None, Stamp], folder: Path, request: TimelapseRequest) -> bytes:
        like = next((model for other, (model, _) in self.models.entries.items() if other[:2] == key[:2]), None)  # type: ignore[index]
        try:
            model = self.models.get(key, lambda: pipeline_at(folder, request.step, like=like), size_in_bytes)
        except ModelFileError:
            raise Problem(404, "this snapshot cannot be loaded", code="snapshot_not_found") from None
        n_tokens = len(model.tokenizer.encode(request.input))
        if n_tokens > MAX_TOKENS:
            raise Problem(
                400, f"the text has {n_tokens:,} tokens; the limit is {MAX_TOKENS}", param="input", code="too_long"
            )
        return pack_bytes(model.trace(model.parse_input(request.input), **options_for(model, request)))


def options_for(model: Pipeline, request: TimelapseRequest) -> dict[str, Any]:
    """Return the options of a trace."""
    options: dict[str, Any] = {"activations": ("*.weights",), "logit_lens": False, "limit": MAX_TRACE_BYTES}
    if not model.generates:
        return {**options, "candidates": N_CANDIDATES_UNFORCED}
    options |= {"candidates": N_CANDIDATES, "target": request.target}
    options |= {"do_sample": False, "max_new_tokens": min(request.max_tokens, model.generation.max_new_tokens)}
    return {**options, "to": request.to} if model.takes_language else options


def size_in_bytes(model: Pipeline) -> int:
    """Return the size of the weights of a model."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.model.parameters())


class TraceBody(Body):
    """A trace by the model of a snapshot."""

    step: Annotated[int, Field(ge=0, lt=1 << 53)] | None = Field(description="Of a snapshot; null for the best model.")
    input: Annotated[str, Field(max_length=MAX_INPUT)]
    to: Annotated[str, Field(max_length=40)] | None = None
    target: Annotated[str, Field(max_length=MAX_INPUT)] | None = None


RUNS_ENABLED = "export const hasRuns = true;\n"
"""Served instead of static/runs_enabled.js, so that the header shows the view."""


def router(submitter: Submitter, root: Path) -> Router:
    """Return the routes of the view of runs."""
    routes = Router(include_in_schema=False)
    served = {name: model.folder for name, model in submitter.models.models.items() if model.folder is not None}
    table, timelapse = RunsTable(root, models=served), Timelapse()

    @routes.get("/studio/runs_enabled.js")
    async def enabled() -> Response:
        return Response(RUNS_ENABLED, media_type="text/javascript", headers={"cache-control": "no-cache"})

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
