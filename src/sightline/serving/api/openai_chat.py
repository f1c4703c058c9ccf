"""/v1/chat/completions: a conversation in, a reply out."""

from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.pipelines import Chat
from sightline.serving.api.decoding_fields import DecodingFields
from sightline.serving.api.loaded_models import NO_MODEL
from sightline.serving.api.openai_usage import OpenAIFinishReason, StreamOptions, Usage, finish_reason, new_id, now
from sightline.serving.api.server_sent import EventStream
from sightline.serving.api.submit import Submitter
from sightline.serving.body import Body
from sightline.serving.model_requests import GenerationRequest
from sightline.serving.problem import Problem
from sightline.serving.route import Router


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


def router(submitter: Submitter) -> Router:
    """Return the route of chat models."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/chat/completions", summary="Reply to a conversation", response_model=ChatCompletion)
    async def chat(body: ChatBody, request: Request) -> ChatCompletion | Response:
        model = submitter.models.get(body.model, Chat)
        turns = merge_turns(body.messages)
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        settings = body.settings_for(model, submitter.limits, max_tokens=max_tokens)
        jobs = await submitter.create_jobs(
            model, lambda history: model.create_job(history, settings), [turns], param="messages"
        )
        generation = submitter.generate(request, model, jobs, streams=bool(body.stream))
        head: dict[str, Any] = {"created": now(), "model": body.model, "id": new_id("chatcmpl")}
        if body.stream:
            return EventStream(stream_chunks(generation, head, body.stream_options or StreamOptions()))
        [replies] = await generation.results()
        choices = [
            ChatChoice(index=rank, message=Reply(content=one.text), finish_reason=finish_reason(one.finish_reason))
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


async def stream_chunks(
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
            yield event(chunk.choice, Delta(), finish_reason(chunk.finish_reason))
    if options.include_usage:
        usage = Usage.of(generation.jobs, completion_tokens=sum(n_tokens.values()))
        yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage.model_dump()}
