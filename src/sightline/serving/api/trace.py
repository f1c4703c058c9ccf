"""/trace: a model's activations for a text, as JSON, as bytes for the drawing, or as safetensors."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from safetensors.numpy import save
from starlette.requests import Request
from starlette.responses import Response

from sightline.errors import InputError
from sightline.serving.api.submit import NO_MODEL, Submitter, run_off_loop
from sightline.serving.http.problem import Problem
from sightline.serving.http.routing import Body, Router

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline
    from sightline.tracing import Trace

MAX_TRACE_BYTES = 64 << 20
MAX_NAMES = 200
MAX_TEXTS = 1_000
OCTET_STREAM = "application/octet-stream"


class TraceBody(Body):
    """What to trace."""

    model: str | None = None
    input: str | Annotated[list[str], Field(max_length=MAX_TEXTS)] = Field(
        description="Input text; for a chat also a list of turns, for a classifier also a pair of texts."
    )
    to: str | None = Field(None, description="Translation: target language.")
    target: str | None = Field(None, description="Force this output instead of searching for one.")
    beam_size: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Beam size of the search; turns sampling off."
    )
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    activations: Annotated[list[str], Field(max_length=MAX_NAMES)] = Field(
        ["*.weights"], description="Names of activations; * matches anything."
    )
    layers: Annotated[list[int], Field(max_length=MAX_NAMES)] | None = None
    heads: Annotated[list[int], Field(max_length=MAX_NAMES)] | None = None
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    logit_lens: bool = True
    head_ablation: bool = False
    hypotheses: bool = False
    ablate_heads: dict[str, list[int]] = Field(
        {}, description="Heads to ablate, such as decoder.1.cross_attention: [0]."
    )
    format: Literal["json", "drawing", "safetensors"] = Field(
        "json",
        description="The trace as JSON with arrays in base64, as bytes for the drawing, or the activations alone.",
    )


def router(submitter: Submitter) -> Router:
    """Return the route that traces a model."""
    routes = Router(tags=["Sightline"], responses=NO_MODEL)
    documented: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The trace.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                OCTET_STREAM: {"schema": {"type": "string"}},
            },
        }
    }

    @routes.post("/trace", summary="Trace a model", response_class=Response, responses=documented)
    async def trace(body: TraceBody, request: Request) -> Response:
        model = submitter.models.get(body.model)
        submitter.limits.check("beams", body.beam_size or 1, param="beam_size")
        submitter.limits.check("new_tokens", body.max_tokens or 1, param="max_tokens")
        options = options_for(model, body)
        text = await parse_input(model, body.input)
        run = lambda texts: [encode_trace(model.trace(one, **options), body.format) for one in texts]  # noqa: E731
        # A unique key: traces have different options, so their calls are never merged.
        [content], _ = await submitter.call_on_texts(request, model, object(), run, [text], param="input")
        return Response(content, media_type="application/json" if body.format == "json" else OCTET_STREAM)

    return routes


async def parse_input(model: "Pipeline", given: str | list[str]) -> Any:
    """Return the input in the form the model takes; refuse several texts if it takes one."""
    try:
        return await run_off_loop(model.parse_input, given)
    except InputError as error:
        raise Problem(400, f"input: {error.reason}", param="input", code="invalid_value") from None


def options_for(model: "Pipeline", body: TraceBody) -> dict[str, Any]:
    """Return the options of the trace; refuse those this kind of model does not have."""
    names = [
        "candidates",
        "heads",
        "hypotheses",
        "ablate_heads",
        "head_ablation",
        "layers",
        "activations",
        "logit_lens",
    ]
    options = {name: getattr(body, name) for name in names}
    of_generation = {"beam_size": body.beam_size, "max_new_tokens": body.max_tokens, "target": body.target}
    if model.takes_language:
        options["to"] = body.to
    elif body.to is not None:
        raise Problem(400, "to: this model does not translate", param="to", code="invalid_value")
    given: dict[str, Any] = {name: value for name, value in of_generation.items() if value is not None}
    if given and not model.generates:
        raise Problem(400, "beam_size, max_tokens and target: this model does not generate text", code="invalid_value")
    if body.beam_size is not None:
        given["do_sample"] = False
    return {**options, **given, "limit": MAX_TRACE_BYTES}


def encode_trace(trace: "Trace", form: str) -> bytes:
    """Return a trace in the requested format."""
    from sightline.tracing.page import pack_bytes

    if form == "json":
        return trace.to_json(packed=True).encode("utf-8")
    if form == "drawing":
        return pack_bytes(trace)
    return save({name: trace[name] for name in trace.names})
