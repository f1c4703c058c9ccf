"""What Walk through asks: values of one pass over given ids, and the learned numbers that made them.

The ids are those of a trace that the page has already: nothing is written anew for every value that is looked at.
"""

from typing import Annotated, Any

import numpy as np
from pydantic import Field
from safetensors.numpy import save
from starlette.requests import Request
from starlette.responses import Response

from sightline.model import GPT, Bert, Transformer
from sightline.pipelines import Classifier, Filler, Pipeline
from sightline.serving import Body, Problem, Router, charge
from sightline.serving.api import Desk
from sightline.serving.api.looking import MOST_BYTES, SAFETENSORS
from sightline.tracing import BertPass, GPTPass, TransformerPass, Wishes
from sightline.tracing.capture import capture
from sightline.tracing.passes import Pass
from sightline.tracing.plan import Plan

MOST_NAMES = 500
MOST_IDS = 100_000
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(max_length=MOST_IDS)]


class WalkBody(Body):
    """What to look at."""

    model: str
    source: Ids = Field(description="What was read; of a GPT nothing.")
    inputs: Ids = Field([], description="What the decoder read.")
    segments: Ids = Field([], description="Of a pair of texts, which one each token is of.")
    probes: Annotated[list[str], Field(max_length=MOST_NAMES)] = Field([], description="Names of values.")
    head: int | None = Field(None, description="Of heads, this one only.")
    row: Annotated[int, Field(ge=0)] | None = Field(None, description="Also the scores of all tokens at this row.")
    weights: Annotated[dict[str, int], Field(max_length=MOST_NAMES)] = Field(
        {}, description="Parameters of the model, and which row of each."
    )


def router(desk: Desk) -> Router:
    """Return the route of the walk."""
    routes = Router(include_in_schema=False)

    @routes.post("/studio-api/walk")
    async def walk(body: WalkBody, request: Request) -> Response:
        model = desk.shelf.named(body.model, Pipeline)
        for name in ("source", "inputs"):
            desk.check_length(model, len(getattr(body, name)), param=name)
        charge(request, len(body.source) + len(body.inputs))
        [answer] = await desk.call(object(), lambda bodies: [written(model, one) for one in bodies], [body])
        return Response(answer, media_type=SAFETENSORS)

    return routes


def written(model: Pipeline, body: WalkBody) -> bytes:
    """Return the values as they are sent."""
    parameters = parameters_of(model, body.weights)
    wishes = Wishes(
        probes=tuple(body.probes), heads=None if body.head is None else (body.head,), readout=False, limit=MOST_BYTES
    )
    with model.at_work():
        work = pass_of(model, body)
        plan = Plan.of(work.points(), wishes, n_heads=model.model.config.n_heads)
        plan.announce(wishes)
        if plan.shapes or body.row is not None:
            seen = capture(work, plan, interventions={}, layers=False)
            parameters |= seen.arrays
        if body.row is not None:
            if body.row >= work.n_rows:
                raise Problem(400, f"there are {work.n_rows} rows", param="row", code="invalid_value")
            whole = len(work.readable) < work.n_rows  # one decision for the whole text
            scores = work.logits(seen.hidden if whole else seen.hidden[:, body.row : body.row + 1])
            parameters["logits"] = np.asarray(scores[0].float().cpu())
    return save({name: np.ascontiguousarray(array) for name, array in parameters.items()})


def parameters_of(model: Pipeline, wanted: dict[str, int]) -> dict[str, Any]:
    """Return one row of each parameter."""
    known = dict(model.model.named_parameters(remove_duplicate=False)) if wanted else {}
    for name, row in wanted.items():
        if name not in known or not 0 <= row < len(known[name]):
            raise Problem(400, "the model has no such parameter, or no such row of it", param="weights", code="unknown")
    return {name: known[name][row].detach().float().reshape(-1).cpu().numpy() for name, row in wanted.items()}


def pass_of(model: Pipeline, body: WalkBody) -> Pass:
    """Return the way of the ids through a model."""
    for name, reads in (("source", Transformer | Bert), ("inputs", Transformer | GPT)):
        if isinstance(model.model, reads) and not getattr(body, name):
            raise Problem(400, f"{name}: there is nothing to read", param=name, code="invalid_value")
    if isinstance(model.model, Transformer):
        return TransformerPass(model.model, body.source, body.inputs)
    if isinstance(model.model, GPT):
        return GPTPass(model.model, body.inputs)
    return bert_pass(model, model.model, body)


def bert_pass(model: Pipeline, bert: Bert, body: WalkBody) -> BertPass:
    """Return the way through a Bert, and to the head that this pipeline asks."""
    if body.segments and (
        len(body.segments) != len(body.source) or not set(body.segments) <= set(range(bert.config.n_segments))
    ):
        raise Problem(400, "segments: each token needs one that the model has", param="segments", code="invalid_value")
    if isinstance(model, Classifier):
        head = "token_classes" if model.per_word else "sequence_classes"
        return BertPass(bert, body.source, head=head, segments=body.segments or None)  # type: ignore[arg-type]
    return BertPass(bert, body.source, head="masked_words" if isinstance(model, Filler) else None)
