"""Texts as a trace shows them: every token with its place in the text."""

from collections.abc import Sequence

from sightline.pipelines.alignment import written_spans
from sightline.text import Tokenizer
from sightline.tracing import Passage, Token
from sightline.tracing.passage import Span

NOTHING = Passage("", ())


def passage(
    text: str, ids: Sequence[int], spans: Sequence[Span], tokenizer: Tokenizer, *, segments: Sequence[int] | None = None
) -> Passage:
    """Return a text with its tokens, which stand at these places of it."""
    special = tokenizer.special_ids
    tokens = (
        Token(id_, tokenizer.token_text(id_), start, end, id_ in special, segment)
        for id_, (start, end), segment in zip(ids, spans, segments or [0] * len(ids), strict=True)
    )
    return Passage(text, tuple(tokens))


def framed(text: str, tokenizer: Tokenizer, *, before: Sequence[int] = (), after: Sequence[int] = ()) -> Passage:
    """Return a text that is read, with what stands before and after it."""
    ids = [*before, *tokenizer.encode(text), *after]
    spans = [*[(0, 0)] * len(before), *tokenizer.spans(text), *[(len(text), len(text))] * len(after)]
    return passage(text, ids, spans, tokenizer)


def written(
    text: str, ids: Sequence[int], tokenizer: Tokenizer, *, ended: bool, context: Sequence[int] = ()
) -> Passage:
    """Return a text that was written after a context; with `ended` the last id is its end."""
    content = ids[:-1] if ended else ids
    spans = written_spans(content, tokenizer, text, context=context)
    return passage(text, ids, [*spans, *[(len(text), len(text))] * (len(ids) - len(content))], tokenizer)


def shifted(token: Token, by: int) -> Token:
    """Return a token as it stands in a longer text."""
    return Token(token.id, token.text, token.start + by, token.end + by, token.special, token.segment)


def one_after_another(first: Passage, second: Passage) -> Passage:
    """Return two texts as one."""
    moved = (shifted(token, len(first.text)) for token in second.tokens)
    return Passage(first.text + second.text, (*first.tokens, *moved))
