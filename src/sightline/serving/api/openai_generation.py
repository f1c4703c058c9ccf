"""/v1/completions and /v1/chat/completions: a prompt or a conversation in, text out, whole or as a stream."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sightline.decoding.settings import DecodingSettings, FinishReason
from sightline.errors import RefusedError, SettingsError
from sightline.serving.api.submit import NO_MODEL, Submitter
from sightline.serving.http.problem import Problem, refusal
from sightline.serving.http.routing import Body, Router
from sightline.serving.http.settings import Limits
from sightline.serving.scheduling.jobs import GenerationRequest

if TYPE_CHECKING:
    from sightline.pipelines import GenerationJob, GenerativePipeline

OpenAIFinishReason = Literal["stop", "length"]


class DecodingFields(Body):
    """Decoding options. Those not given are taken from the model's own settings."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="Sampling temperature; 0 is greedy."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Nucleus sampling: sample from the fewest tokens with this total probability."
    )
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Sample from this many most probable tokens; 0 for all. (Not in OpenAI's API.)"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Random seed: the same seed gives the same text."
    )
    beam_size: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Beam size; 1 is greedy. (Not in OpenAI's API.)"
    )
    n: Annotated[int, Field(ge=1)] | None = Field(None, description="Number of completions for each prompt.")
    stop: str | list[str] | None = Field(None, description="Stop sequences: the text ends before any of them.")

    def stops(self) -> tuple[str, ...]:
        """Return the stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def settings_for(
        self, pipeline: "GenerativePipeline", limits: Limits, *, max_tokens: int | None
    ) -> DecodingSettings:
        """Return the model's decoding settings overridden by these; `max_tokens` is the request's own limit."""
        limits.check("choices", self.n or 1, param="n")
        limits.check("beams", self.beam_size or 1, param="beam_size")
        limits.check("stop_sequences", len(self.stops()), param="stop")
        limits.check("new_tokens", max_tokens or 1, param="max_tokens")
        given = {
            "temperature": self.temperature or None,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "beam_size": self.beam_size,
            "stop": self.stops() or None,
            "max_new_tokens": min(max_tokens or pipeline.generation.max_new_tokens, limits.new_tokens),
        }
        overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        if self.temperature == 0:
            overrides["do_sample"] = False
        try:
            return pipeline.resolve_settings(self.n or 1, overrides)
        except SettingsError as error:
            raise Problem(400, str(error), code="invalid_value") from None


class StreamOptions(Body):
    """What a stream sends besides its chunks."""

    include_usage: bool = False


class EventStream(StreamingResponse):
    """Streams the events of an iterator, then [DONE]; an error on the way is an event as well."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[object]) -> None:
        super().__init__(encode_events(events), headers={"cache-control": "no-store", "x-accel-buffering": "no"})


async def encode_events(events: AsyncIterator[object]) -> AsyncIterator[str]:
    """Yield the events in the wire format."""
    try:
        async for event in events:
            yield f"data: {json.dumps(event, ensure_ascii=False, allow_nan=False)}\n\n"
    except (Problem, RefusedError) as error:
        problem = error if isinstance(error, Problem) else refusal(error)
        yield f"data: {problem.body().decode('ascii')}\n\n"
    yield "data: [DONE]\n\n"


class Usage(BaseModel):
    """Token counts of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, jobs: "Sequence[GenerationJob | None]", *, completion_tokens: int | None = None) -> "Usage":
        """Count the tokens of finished jobs; `completion_tokens` if they were counted while streaming."""
        done = [job for job in jobs if job is not None]
        prompt = sum(len(job.ids) for job in done)
        if completion_tokens is None:
            completion_tokens = sum(len(hypothesis.ids) for job in done for hypothesis in job.search.hypotheses[0])
        return cls(prompt_tokens=prompt, completion_tokens=completion_tokens, total_tokens=prompt + completion_tokens)


def convert_finish_reason(finish: FinishReason) -> OpenAIFinishReason:
    """Return the finish reason in OpenAI's terms."""
    return "length" if finish == "length" else "stop"


def new_id(kind: str) -> str:
    """Return a random id for a response."""
    return f"{kind}-{secrets.token_hex(12)}"


def now() -> int:
    """Return the Unix time in seconds."""
    return int(time.time())


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


def completions_router(submitter: Submitter) -> Router:
    """Return the route of text generators."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/completions", summary="Continue a prompt", response_model=Completion)
    async def completions(body: CompletionBody, request: Request) -> Completion | Response:
        model = submitter.models.get(body.model, path="/v1/completions")
        settings = body.settings_for(model, submitter.limits, max_tokens=body.max_tokens)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        jobs = await submitter.create_jobs(
            model, lambda prompt: model.create_job(prompt, settings), prompts, param="prompt"
        )
        generation = submitter.generate(request, model, jobs, streams=bool(body.stream))
        head: dict[str, Any] = {"id": new_id("cmpl"), "created": now(), "model": body.model}
        per_prompt = settings.n_best
        if body.stream:
            return EventStream(stream_completion(generation, head, per_prompt, body.stream_options or StreamOptions()))
        found = await generation.results()
        choices = [
            CompletionChoice(
                index=number * per_prompt + rank, text=one.text, finish_reason=convert_finish_reason(one.finish_reason)
            )
            for number, several in enumerate(found)
            for rank, one in enumerate(several)
        ]
        return Completion(**head, choices=choices, usage=Usage.of(jobs))

    return routes


async def stream_completion(
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
            finish_reason=None if chunk.finish_reason is None else convert_finish_reason(chunk.finish_reason),
        )
        yield Completion(**head, choices=[choice]).model_dump()
    if options.include_usage:
        usage = Usage.of(generation.jobs, completion_tokens=sum(n_tokens.values()))
        yield Completion(**head, choices=[], usage=usage).model_dump()


class TextPart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(Body):
    """One message of the conversation."""

    role: Literal["user", "assistant"] = Field(
        description="No system messages: chat models here are trained on dialogues, not on instructions."
    )
    content: str | Annotated[list[TextPart], Field(min_length=1)]

    @property
    def text(self) -> str:
        """The message as one text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(DecodingFields):
    """The conversation, and how to reply."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1, max_length=1_000)] = Field(
        description="Oldest first; the last is from the user. Consecutive messages of one role are one turn."
    )
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class Reply(BaseModel):
    """The message of a reply."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Delta(BaseModel):
    """The next part of a reply."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChoice(BaseModel):
    """One reply."""

    index: int
    message: Reply
    logprobs: None = None
    finish_reason: OpenAIFinishReason


class ChatCompletion(BaseModel):
    """All replies."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


def chat_router(submitter: Submitter) -> Router:
    """Return the route of chat models."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/chat/completions", summary="Reply to a conversation", response_model=ChatCompletion)
    async def chat(body: ChatBody, request: Request) -> ChatCompletion | Response:
        model = submitter.models.get(body.model, path="/v1/chat/completions")
        turns = merge_turns(body.messages)
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        settings = body.settings_for(model, submitter.limits, max_tokens=max_tokens)
        jobs = await submitter.create_jobs(
            model, lambda history: model.create_job(history, settings), [turns], param="messages"
        )
        generation = submitter.generate(request, model, jobs, streams=bool(body.stream))
        head: dict[str, Any] = {"created": now(), "model": body.model, "id": new_id("chatcmpl")}
        if body.stream:
            return EventStream(stream_reply(generation, head, body.stream_options or StreamOptions()))
        [replies] = await generation.results()
        choices = [
            ChatChoice(
                index=rank, message=Reply(content=one.text), finish_reason=convert_finish_reason(one.finish_reason)
            )
            for rank, one in enumerate(replies)
        ]
        return ChatCompletion(**head, choices=choices, usage=Usage.of(jobs))

    return routes


def merge_turns(messages: Sequence[Message]) -> list[str]:
    """Return the turns, oldest first, alternating between user and assistant; the last must be from the user.

    Chat models know no roles, only turns that alternate: consecutive messages of one role are joined to one turn.
    """
    if messages[-1].role != "user" or not messages[-1].text.strip():
        raise Problem(
            400,
            "messages: the last message must be from the user, and not blank",
            param="messages",
            code="invalid_value",
        )
    return ["\n".join(message.text for message in turn) for _, turn in groupby(messages, key=lambda one: one.role)]


async def stream_reply(
    generation: GenerationRequest, head: dict[str, Any], options: StreamOptions
) -> AsyncIterator[object]:
    """Yield the replies in chunks."""
    n_tokens: dict[int, int] = {}

    def event(index: int, delta: Delta, reason: OpenAIFinishReason | None) -> dict[str, Any]:
        choice = {
            "index": index, "delta": delta.model_dump(exclude_none=True), "logprobs": None, "finish_reason": reason
        }  # fmt: skip
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    async for chunk in generation.stream():
        if chunk.choice not in n_tokens:
            yield event(chunk.choice, Delta(role="assistant", content=""), None)
        n_tokens[chunk.choice] = chunk.n_tokens
        if chunk.text:
            yield event(chunk.choice, Delta(content=chunk.text), None)
        if chunk.finish_reason is not None:
            yield event(chunk.choice, Delta(), convert_finish_reason(chunk.finish_reason))
    if options.include_usage:
        usage = Usage.of(generation.jobs, completion_tokens=sum(n_tokens.values()))
        yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage.model_dump()}
