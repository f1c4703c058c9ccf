"""/studio-api/activations: activations, logits and parameter rows of one forward pass over given ids, for Walk through.

The ids are those of a trace that the page already has: nothing is generated again for each request.
"""

from typing import Annotated, Any

import numpy as np
from pydantic import Field
from safetensors.numpy import save
from starlette.requests import Request
from starlette.responses import Response

from sightline.errors import InputError
from sightline.pipelines import Pipeline
from sightline.serving.api import Submitter
from sightline.serving.api.trace import MAX_TRACE_BYTES, OCTET_STREAM
from sightline.serving.http import Body, Problem, Router, charge
from sightline.tracing import TraceOptions
from sightline.tracing.passes import Pass, capture
from sightline.tracing.plan import Plan

MAX_NAMES = 500
MAX_IDS = 100_000
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(max_length=MAX_IDS)]


class ActivationsBody(Body):
    """The ids of a forward pass, and what to return of it."""

    model: str
    source: Ids = Field(description="Ids of the source; empty if only a decoder reads.")
    inputs: Ids = Field([], description="Ids of the decoder inputs.")
    segments: Ids = Field([], description="Segment of each source token, for a pair of texts.")
    activations: Annotated[list[str], Field(max_length=MAX_NAMES)] = Field([], description="Names of activations.")
    head: int | None = Field(None, description="Only this head.")
    row: Annotated[int, Field(ge=0)] | None = Field(None, description="Also the logits at this row.")
    weights: Annotated[dict[str, int], Field(max_length=MAX_NAMES)] = Field(
        {}, description="Names of parameters, and the row of each."
    )


def router(submitter: Submitter) -> Router:
    """Return the route."""
    routes = Router(include_in_schema=False)

    @routes.post("/studio-api/activations")
    async def activations(body: ActivationsBody, request: Request) -> Response:
        model = submitter.models.get(body.model)
        for name in ("source", "inputs"):
            # Without an encoder, a source and its target share the positions of the model.
            max_length = model.model.config.max_length
            submitter.check_length(model, len(getattr(body, name)), param=name, max_length=max_length)
        charge(request, len(body.source) + len(body.inputs))
        [answer] = await submitter.call(object(), lambda bodies: [compute(model, one) for one in bodies], [body])
        return Response(answer, media_type=OCTET_STREAM)

    return routes


def compute(model: Pipeline, body: ActivationsBody) -> bytes:
    """Return the requested arrays as a safetensors file."""
    parameters = parameter_rows(model, body.weights)
    options = TraceOptions(
        activations=tuple(body.activations),
        heads=None if body.head is None else (body.head,),
        logit_lens=False,
        limit=MAX_TRACE_BYTES,
    )
    with model.inference_mode():
        forward_pass = build_pass(model, body)
        plan = Plan.of(forward_pass.points(), options, n_heads=model.model.config.n_heads)
        plan.check_limit(options)
        if plan.shapes or body.row is not None:
            captured = capture(forward_pass, plan, interventions={}, layers=False)
            parameters |= captured.arrays
        if body.row is not None:
            if body.row >= forward_pass.n_rows:
                raise Problem(400, f"there are {forward_pass.n_rows} rows", param="row", code="invalid_value")
            whole = len(forward_pass.logit_rows) < forward_pass.n_rows  # one prediction for the whole text
            scores = forward_pass.logits(captured.hidden if whole else captured.hidden[:, body.row : body.row + 1])
            parameters["logits"] = np.asarray(scores[0].float().cpu())
    return save({name: np.ascontiguousarray(array) for name, array in parameters.items()})


def parameter_rows(model: Pipeline, wanted: dict[str, int]) -> dict[str, Any]:
    """Return one row of each parameter."""
    known = dict(model.model.named_parameters(remove_duplicate=False)) if wanted else {}
    for name, row in wanted.items():
        if name not in known or not 0 <= row < len(known[name]):
            raise Problem(400, "the model has no such parameter, or no such row", param="weights", code="unknown")
    return {name: known[name][row].detach().float().reshape(-1).cpu().numpy() for name, row in wanted.items()}


def build_pass(model: Pipeline, body: ActivationsBody) -> Pass:
    """Return the forward pass of the ids."""
    try:
        return model.forward_pass(body.source, body.inputs, segments=body.segments or None)
    except InputError as error:
        param = error.option or "model"
        raise Problem(400, f"{param}: {error.reason}", param=param, code="invalid_value") from None
