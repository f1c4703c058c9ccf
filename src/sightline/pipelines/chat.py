"""Converse: the last few turns in, a reply out."""

from collections.abc import Sequence

from sightline.bundle import Purpose
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines.batches import BATCH_TOKENS
from sightline.pipelines.passages import NOTHING, framed
from sightline.pipelines.rewriter import Rewriter
from sightline.pipelines.task import Task
from sightline.text.dialogue import source_of
from sightline.tracing import Trace


class Chat(Rewriter):
    """Replies to what was said; it remembers nothing itself."""

    @property
    def history(self) -> int:
        """Turns that are read before a reply."""
        return (self.purpose or Purpose("chat")).history

    def reply(self, history: Sequence[str], **overrides: object) -> str:
        """Return the reply to the last of these turns, oldest first; `overrides` are decoding settings.

        As many of the turns before it are read as the model was made for, fewer if they are too long. There is no
        reply to a blank turn.
        """
        if isinstance(history, str):
            raise InputError("a reply needs the list of turns, not one text: put it in brackets")
        return self.replies([history], settings=self.settings(**{**overrides, "n_best": 1}))[0]

    def replies(
        self,
        histories: Sequence[Sequence[str]],
        *,
        settings: DecodingSettings | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[str]:
        """Return the reply to the last turn of each of several conversations."""
        settings = settings or self.generation
        sources = [self.source(history) for history in histories]
        found = self.rewrite(sources, settings=settings, prefixes=[()] * len(sources), batch_tokens=batch_tokens)
        return [self.written(hypotheses[0], settings) if hypotheses else "" for hypotheses in found]

    def task(self, history: Sequence[str], settings: DecodingSettings) -> Task | None:
        """Return the task to reply to the last of these turns; None where that is blank."""
        source = self.source(history)
        return self.task_for(source, settings) if source else None

    def conversation(self) -> "Conversation":
        """Begin a conversation that remembers what was said."""
        return Conversation(self)

    def trace(self, text: str | Sequence[str], *, target: str | None = None, **options: object) -> Trace:
        """Return what the model does while it replies to a text, or to the last of several turns.

        With a `target` it is shown how it would give that reply. `options` are those of `tracing.Wishes` and decoding
        settings (`beam=4`).
        """
        read = self.read([text] if isinstance(text, str) else text)
        return self.trace_source(framed(read, self.tokenizer) if read else NOTHING, target, options)

    def source(self, history: Sequence[str]) -> list[int]:
        """Return the ids of what the model reads."""
        return self.tokenizer.encode(self.read(history))

    def read(self, history: Sequence[str]) -> str:
        """Return what the model reads: the turns a line each, the oldest left out while they are too long."""
        if not history:
            raise InputError("a reply needs at least one turn to reply to")
        if not history[-1].strip():
            return ""
        turns = min(self.history, len(history))
        text = source_of(history, history=turns)
        while turns > 1 and self.max_length is not None and len(self.tokenizer.encode(text)) > self.max_length:
            turns -= 1
            text = source_of(history, history=turns)
        return text


class Conversation:
    """What two have said to each other so far."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.turns: list[str] = []
        """Everything that was said, in turn."""

    def say(self, message: str, **overrides: object) -> str:
        """Return the reply to a message, and remember both; a blank message has no reply and is not remembered."""
        reply = self.chat.reply([*self.turns, message], **overrides)
        if message.strip():
            self.turns += [message, reply]
        return reply
