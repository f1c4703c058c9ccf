"""/v1/completions: a prompt in, its continuation out."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.pipelines import Generator
from sightline.serving.api.decoding_fields import DecodingFields
from sightline.serving.api.loaded_models import NO_MODEL
from sightline.serving.api.openai_usage import OpenAIFinishReason, StreamOptions, Usage, finish_reason, new_id, now
from sightline.serving.api.server_sent import EventStream
from sightline.serving.api.submit import Submitter
from sightline.serving.model_requests import GenerationRequest
from sightline.serving.route import Router


class CompletionBody(DecodingFields):
    """The prompt, and how to continue it."""

    model: str
    prompt: str | list[str]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class CompletionChoice(BaseModel):
    """One continuation."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: OpenAIFinishReason | None


class Completion(BaseModel):
    """All continuations."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


def router(submitter: Submitter) -> Router:
    """Return the route of text generators."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/completions", summary="Continue a prompt", response_model=Completion)
    async def completions(body: CompletionBody, request: Request) -> Completion | Response:
        model = submitter.models.get(body.model, Generator)
        settings = body.settings_for(model, submitter.limits, max_tokens=body.max_tokens)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        jobs = await submitter.create_jobs(
            model, lambda prompt: model.create_job(prompt, settings), prompts, param="prompt"
        )
        generation = submitter.generate(request, model, jobs, streams=bool(body.stream))
        head: dict[str, Any] = {"id": new_id("cmpl"), "created": now(), "model": body.model}
        per_prompt = settings.n_best
        if body.stream:
            return EventStream(stream_chunks(generation, head, per_prompt, body.stream_options or StreamOptions()))
        found = await generation.results()
        choices = [
            CompletionChoice(
                index=number * per_prompt + rank, text=one.text, finish_reason=finish_reason(one.finish_reason)
            )
            for number, several in enumerate(found)
            for rank, one in enumerate(several)
        ]
        return Completion(**head, choices=choices, usage=Usage.of(jobs))

    return routes


async def stream_chunks(
    generation: GenerationRequest, head: dict[str, Any], per_prompt: int, options: StreamOptions
) -> AsyncIterator[object]:
    """Yield the texts in chunks."""
    n_tokens: dict[tuple[int, int], int] = {}
    async for chunk in generation.stream():
        n_tokens[chunk.job, chunk.choice] = chunk.n_tokens
        if not chunk.text and chunk.finish_reason is None:
            continue
        choice = CompletionChoice(
            index=chunk.job * per_prompt + chunk.choice,
            text=chunk.text,
            finish_reason=None if chunk.finish_reason is None else finish_reason(chunk.finish_reason),
        )
        yield Completion(**head, choices=[choice]).model_dump()
    if options.include_usage:
        usage = Usage.of(generation.jobs, completion_tokens=sum(n_tokens.values()))
        yield Completion(**head, choices=[], usage=usage).model_dump()
