"""Chat: the last few turns in, a reply out."""

from collections.abc import Sequence

from sightline.bundle import TaskConfig
from sightline.data.corpora.corpus import format_context
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines.generation import GenerationJob
from sightline.pipelines.pipeline import BATCH_TOKENS, build_tokenized_text
from sightline.pipelines.seq2seq import Seq2SeqPipeline
from sightline.tracing import Trace
from sightline.tracing.tokenized_text import Span


class Chat(Seq2SeqPipeline):
    """Replies to a dialogue; keeps no history itself (`Conversation` does)."""

    @property
    def context_turns(self) -> int:
        """Number of turns read before a reply."""
        return self.task_config.context_turns if self.task_config else TaskConfig.context_turns

    def reply(self, history: Sequence[str], **overrides: object) -> str:
        """Return the reply to the last of these turns, oldest first; `overrides` are decoding settings.

        The model reads the last `context_turns` turns, fewer if they are too long. A blank last turn has no reply.
        """
        if isinstance(history, str):
            raise InputError("expected a list of turns, not one text: put it in brackets")
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
        sources = [self.encode_source(history) for history in histories]
        found = self.decode_sources(sources, settings=settings, prefixes=[()] * len(sources), batch_tokens=batch_tokens)
        return [self.decode_hypothesis(hypotheses[0], settings) if hypotheses else "" for hypotheses in found]

    def create_job(self, history: Sequence[str], settings: DecodingSettings) -> GenerationJob | None:
        """Create the job of replying to the last of these turns; None if it is blank."""
        source = self.encode_source(history)
        return self.create_source_job(source, settings) if source else None

    def conversation(self) -> "Conversation":
        """Start a conversation that keeps its history."""
        return Conversation(self)

    def trace(self, text: str | Sequence[str], *, target: str | None = None, **options: object) -> Trace:
        """Trace the model while it replies to a text, or to the last of several turns.

        With a `target`, trace the model forced to give that reply. `options` are those of `tracing.TraceOptions` and
        decoding settings (`beam_size=4`).
        """
        read, ids, spans = self.fit_context([text] if isinstance(text, str) else text)
        return self.trace_source(build_tokenized_text(read, ids, spans, self.tokenizer), target, options)

    def parse_input(self, given: str | Sequence[str]) -> str | Sequence[str]:
        """Return a text, or turns without the oldest ones if they are too long."""
        return given if isinstance(given, str) else self.source_text(given).split("\n")

    def encode_source(self, history: Sequence[str]) -> list[int]:
        """Tokenize the source of a reply."""
        return self.fit_context(history)[1]

    def source_text(self, history: Sequence[str]) -> str:
        """Return the source of a reply: one turn a line, without the oldest turns if they are too long."""
        return self.fit_context(history)[0]

    def fit_context(self, history: Sequence[str]) -> tuple[str, list[int], list[Span]]:
        """Return the source of a reply, without the oldest turns if they are too long, its ids and their spans."""
        if not history:
            raise InputError("a reply needs at least one turn to reply to")
        if not history[-1].strip():
            return "", [], []
        turns = min(self.context_turns, len(history))
        while True:
            text = format_context(history, context_turns=turns)
            ids, spans = self.tokenizer.encode_with_offsets(text)
            if turns <= 1 or self.max_context is None or len(ids) <= self.max_context:
                return text, ids, spans
            turns -= 1

    @property
    def max_context(self) -> int | None:
        """Tokens from which on old turns are dropped; where turns and reply share positions, a reply has room left."""
        if not self.in_sequence or self.max_positions is None:
            return self.max_length
        return self.max_positions - min(self.generation.max_new_tokens, self.max_positions // 2)


class Conversation:
    """A dialogue with its history."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.turns: list[str] = []
        """Messages and replies, oldest first."""

    def say(self, message: str, **overrides: object) -> str:
        """Return the reply to a message and add both to the history; a blank message has no reply and is not added."""
        reply = self.chat.reply([*self.turns, message], **overrides)
        if message.strip():
            self.turns += [message, reply]
        return reply
