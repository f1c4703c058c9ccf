"""/studio-api/activations: activations, logits and parameter rows of one forward pass over given ids, for Walk through.

The ids are those of a trace that the page already has: nothing is generated again for each request.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from safetensors.numpy import save
from starlette.requests import Request
from starlette.responses import Response

from sightline.bundle.contents import TaskConfig
from sightline.model import CausalLM, Seq2Seq, TextEncoder
from sightline.model.registry import interface_of
from sightline.pipelines import Pipeline
from sightline.serving.api import Submitter
from sightline.serving.api.trace import MAX_TRACE_BYTES, OCTET_STREAM
from sightline.serving.http import Body, Problem, Router, charge
from sightline.tasks import task_of
from sightline.tracing import CausalLMPass, Seq2SeqPass, TextEncoderPass, TraceOptions
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
            submitter.check_length(model, len(getattr(body, name)), param=name)
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
    interface = interface_of(model.model.config)
    if interface not in PASSES:
        raise Problem(400, "this kind of model has no forward pass over ids", param="model", code="invalid_value")
    needed, build = PASSES[interface]
    for name in needed:
        if not getattr(body, name):
            raise Problem(400, f"{name} is empty", param=name, code="invalid_value")
    check_segments(body, getattr(model.model.config, "n_segments", 0))
    return build(model, body)


def check_segments(body: ActivationsBody, n_segments: int) -> None:
    """Refuse segments that do not fit the source, or that the model does not have."""
    fits = len(body.segments) in (0, len(body.source)) and set(body.segments) <= set(range(n_segments))
    if not fits:
        raise Problem(400, "segments: give one valid segment per source token", param="segments", code="invalid_value")


def find_head(model: Pipeline) -> Any:
    """Return the head that the task of a model uses; None without one."""
    task = task_of(model)
    if task is None:
        return None
    wanted = (task.head(model.task_config or TaskConfig(task.name)), *task.heads)
    return next((head for head in wanted if head in getattr(model.model.config, "heads", ())), None)


def build_text_encoder_pass(model: Pipeline, body: ActivationsBody) -> TextEncoderPass:
    """Return the forward pass through an encoder and one of its heads."""
    encoder: Any = model.model
    return TextEncoderPass(encoder, body.source, head=find_head(model), segments=body.segments or None)


def build_seq2seq_pass(model: Pipeline, body: ActivationsBody) -> Seq2SeqPass:
    """Return the forward pass of a source and a target."""
    seq2seq: Any = model.model
    return Seq2SeqPass(seq2seq, body.source, body.inputs)


def build_causal_lm_pass(model: Pipeline, body: ActivationsBody) -> CausalLMPass:
    """Return the forward pass of a text."""
    language_model: Any = model.model
    return CausalLMPass(language_model, body.inputs)


PASSES: dict[type, tuple[tuple[str, ...], Callable[[Pipeline, ActivationsBody], Pass]]] = {
    Seq2Seq: (("source", "inputs"), build_seq2seq_pass),
    CausalLM: (("inputs",), build_causal_lm_pass),
    TextEncoder: (("source",), build_text_encoder_pass),
}
"""The fields that the models of an interface need, and their forward pass."""


def register_pass(interface: type, needed: tuple[str, ...], build: Callable[[Pipeline, ActivationsBody], Pass]) -> None:
    """Add the forward pass of the models of an interface, and the fields that it needs."""
    PASSES[interface] = (needed, build)
