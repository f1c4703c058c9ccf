"""/trace: what a model did with a text: as JSON, as the bytes that a page draws, or its numbers alone."""

from typing import Annotated, Any, Literal

from pydantic import Field
from safetensors.numpy import save
from starlette.requests import Request
from starlette.responses import Response

from sightline.pipelines import Chat, Classifier, Generator, Pipeline, Translator
from sightline.serving.api.desk import Desk, aside
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.body import Body
from sightline.serving.problem import Problem
from sightline.serving.route import Router
from sightline.tracing import Trace
from sightline.tracing.drawing import bytes_of

MOST_BYTES = 64 << 20
MOST_NAMES = 200
MOST_TEXTS = 1_000
PAIR = 2
SAFETENSORS = "application/octet-stream"


class TraceBody(Body):
    """What to look at."""

    model: str | None = None
    input: str | Annotated[list[str], Field(max_length=MOST_TEXTS)] = Field(
        description="What the model reads; of a chat also all turns, of a classifier also a pair of texts."
    )
    to: str | None = Field(None, description="Translation: into which language.")
    target: str | None = Field(None, description="Show how this would be written, instead of what the model writes.")
    beam: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Search with this many hypotheses; a model that else draws at random then does not."
    )
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    probes: Annotated[list[str], Field(max_length=MOST_NAMES)] = Field(
        ["*.weights"], description="Names of values, * standing for anything."
    )
    layers: Annotated[list[int], Field(max_length=MOST_NAMES)] | None = None
    heads: Annotated[list[int], Field(max_length=MOST_NAMES)] | None = None
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    readout: bool = True
    knockouts: bool = False
    hypotheses: bool = False
    knock_out: dict[str, list[int]] = Field({}, description="Heads to silence: decoder.1.cross_attention: [0].")
    format: Literal["json", "drawing", "safetensors"] = Field(
        "json",
        description="All of the trace as JSON, its arrays in base64; what a page draws, as bytes; or the probes alone.",
    )


def router(desk: Desk) -> Router:
    """Return the route that shows what a model did."""
    routes = Router(tags=["Sightline"], responses=NO_MODEL)
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The trace.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                SAFETENSORS: {"schema": {"type": "string"}},
            },
        }
    }

    @routes.post("/trace", summary="Show what a model does with a text", response_class=Response, responses=answers)
    async def trace(body: TraceBody, request: Request) -> Response:
        model = desk.shelf.named(body.model, Pipeline)
        desk.limits.check("beams", body.beam or 1, param="beam")
        desk.limits.check("new_tokens", body.max_tokens or 1, param="max_tokens")
        options = options_for(model, body)
        read = await read_by(model, body.input)
        what = lambda texts: [written(model.trace(text, **options), body.format) for text in texts]  # noqa: E731
        # A key of its own: no two traces are asked for in the same words, so they are never put together.
        [answer], _ = await desk.read(request, model, object(), what, [read], param="input")
        return Response(answer, media_type="application/json" if body.format == "json" else SAFETENSORS)

    return routes


async def read_by(model: Pipeline, given: str | list[str]) -> str | list[str]:
    """Return what a model reads of what is given, refusing several texts where it reads one."""
    if isinstance(model, Classifier) and model.per_word:
        given = given if isinstance(given, str) else " ".join(given)
        return given.split()
    if isinstance(given, str):
        return given
    if isinstance(model, Chat):
        return (await aside(model.read, given)).split("\n")  # old turns may be left out: they are no matter of length
    if isinstance(model, Classifier) and len(given) == PAIR:
        return given
    raise Problem(400, "input: this model reads one text", param="input", code="invalid_value")


def options_for(model: Pipeline, body: TraceBody) -> dict[str, Any]:
    """Return what the trace is asked for, refusing what this kind of model has not."""
    writes = isinstance(model, Translator | Chat | Generator)
    names = ["candidates", "heads", "hypotheses", "knock_out", "knockouts", "layers", "probes", "readout"]
    options = {name: getattr(body, name) for name in names}
    of_writers = {"beam": body.beam, "max_length": body.max_tokens, "target": body.target}
    if isinstance(model, Translator):
        options["to"] = body.to
    elif body.to is not None:
        raise Problem(400, "to: this model does not translate", param="to", code="invalid_value")
    given: dict[str, Any] = {name: value for name, value in of_writers.items() if value is not None}
    if given and not writes:
        raise Problem(400, "beam, max_tokens and target are for models that write", code="invalid_value")
    if body.beam is not None:
        given["sample"] = False
    return {**options, **given, "limit": MOST_BYTES}


def written(trace: Trace, form: str) -> bytes:
    """Return a trace as it is sent."""
    if form == "json":
        return trace.to_json(packed=True).encode("utf-8")
    if form == "drawing":
        return bytes_of(trace)
    return save({name: trace[name] for name in trace.names})
