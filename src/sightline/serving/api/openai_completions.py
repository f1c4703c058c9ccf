"""/v1/completions: a prompt in, what follows it out."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.pipelines import Generator
from sightline.serving.api.decoding_fields import DecodingFields
from sightline.serving.api.desk import Desk
from sightline.serving.api.openai_usage import FinishReason, StreamOptions, Usage, finish_reason, new_id, now
from sightline.serving.api.server_sent import EventStream
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.route import Router
from sightline.serving.work import Work


class CompletionBody(DecodingFields):
    """What to go on with, and how."""

    model: str
    prompt: str | list[str]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class CompletionChoice(BaseModel):
    """One text."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: FinishReason | None


class Completion(BaseModel):
    """All texts."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


def router(desk: Desk) -> Router:
    """Return the route that goes on with texts."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/completions", summary="Go on with a prompt", response_model=Completion)
    async def completions(body: CompletionBody, request: Request) -> Completion | Response:
        model = desk.shelf.named(body.model, Generator)
        settings = body.settings_for(model, desk.limits, most_tokens=body.max_tokens)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        tasks = await desk.tasks(model, lambda prompt: model.task(prompt, settings), prompts, param="prompt")
        work = desk.write(request, model, tasks, streams=bool(body.stream))
        head: dict[str, Any] = {"id": new_id("cmpl"), "created": now(), "model": body.model}
        per_prompt = settings.n_best
        if body.stream:
            return EventStream(chunks(work, head, per_prompt, body.stream_options or StreamOptions()))
        found = await work.results()
        choices = [
            CompletionChoice(index=number * per_prompt + rank, text=one.text, finish_reason=finish_reason(one.finish))
            for number, several in enumerate(found)
            for rank, one in enumerate(several)
        ]
        return Completion(**head, choices=choices, usage=Usage.of(tasks))

    return routes


async def chunks(work: Work, head: dict[str, Any], per_prompt: int, options: StreamOptions) -> AsyncIterator[object]:
    """Yield the texts in pieces."""
    written: dict[tuple[int, int], int] = {}
    async for piece in work.stream():
        written[piece.task, piece.choice] = piece.tokens
        if not piece.text and piece.finish is None:
            continue
        choice = CompletionChoice(
            index=piece.task * per_prompt + piece.choice,
            text=piece.text,
            finish_reason=None if piece.finish is None else finish_reason(piece.finish),
        )
        yield Completion(**head, choices=[choice]).model_dump()
    if options.include_usage:
        usage = Usage.of(work.tasks, written=sum(written.values()))
        yield Completion(**head, choices=[], usage=usage).model_dump()
