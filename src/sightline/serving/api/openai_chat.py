"""/v1/chat/completions: what was said in, a reply out."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from sightline.pipelines import Chat
from sightline.serving.api.decoding_fields import DecodingFields
from sightline.serving.api.desk import Desk
from sightline.serving.api.openai_usage import FinishReason, StreamOptions, Usage, finish_reason, new_id, now
from sightline.serving.api.server_sent import EventStream
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.body import Body
from sightline.serving.problem import Problem
from sightline.serving.route import Router
from sightline.serving.work import Work


class TextPart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(Body):
    """What one of the two said."""

    role: Literal["user", "assistant"] = Field(
        description="No others: models here learn from conversations, not from instructions."
    )
    content: str | Annotated[list[TextPart], Field(min_length=1)]

    @property
    def text(self) -> str:
        """The message as one text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(DecodingFields):
    """What was said, and how to reply."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1, max_length=1_000)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class Reply(BaseModel):
    """A reply."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Delta(BaseModel):
    """Some more of a reply."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChoice(BaseModel):
    """One reply."""

    index: int
    message: Reply
    logprobs: None = None
    finish_reason: FinishReason


class ChatCompletion(BaseModel):
    """All replies."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


def router(desk: Desk) -> Router:
    """Return the route that replies."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/chat/completions", summary="Reply", response_model=ChatCompletion)
    async def chat(body: ChatBody, request: Request) -> ChatCompletion | Response:
        model = desk.shelf.named(body.model, Chat)
        turns = turns_of(body)
        most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        settings = body.settings_for(model, desk.limits, most_tokens=most)
        tasks = await desk.tasks(model, lambda history: model.task(history, settings), [turns], param="messages")
        work = desk.write(request, model, tasks, streams=bool(body.stream))
        head: dict[str, Any] = {"created": now(), "model": body.model, "id": new_id("chatcmpl")}
        if body.stream:
            return EventStream(chunks(work, head, body.stream_options or StreamOptions()))
        [replies] = await work.results()
        choices = [
            ChatChoice(index=rank, message=Reply(content=one.text), finish_reason=finish_reason(one.finish))
            for rank, one in enumerate(replies)
        ]
        return ChatCompletion(**head, choices=choices, usage=Usage.of(tasks))

    return routes


def turns_of(body: ChatBody) -> list[str]:
    """Return what was said, oldest first; the last must be the user's, and must say something."""
    last = body.messages[-1]
    if last.role != "user" or not last.text.strip():
        raise Problem(
            400, "messages: the last must be the user's, and not blank", param="messages", code="invalid_value"
        )
    return [message.text for message in body.messages]


async def chunks(work: Work, head: dict[str, Any], options: StreamOptions) -> AsyncIterator[object]:
    """Yield the replies in pieces."""
    written: dict[int, int] = {}

    def chunk(index: int, delta: Delta, reason: FinishReason | None) -> dict[str, Any]:
        choice = {
            "index": index, "delta": delta.model_dump(exclude_none=True), "logprobs": None, "finish_reason": reason
        }  # fmt: skip
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    async for piece in work.stream():
        if piece.choice not in written:
            yield chunk(piece.choice, Delta(role="assistant", content=""), None)
        written[piece.choice] = piece.tokens
        if piece.text:
            yield chunk(piece.choice, Delta(content=piece.text), None)
        if piece.finish is not None:
            yield chunk(piece.choice, Delta(), finish_reason(piece.finish))
    if options.include_usage:
        usage = Usage.of(work.tasks, written=sum(written.values()))
        yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage.model_dump()}
