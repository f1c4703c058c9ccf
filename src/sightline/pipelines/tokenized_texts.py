"""Texts for a trace: every token with its span in the text."""

from collections.abc import Sequence

from sightline.pipelines.alignment import find_token_spans
from sightline.text import Tokenizer
from sightline.tracing import Token, TokenizedText
from sightline.tracing.tokenized_text import Span


def build_tokenized_text(
    text: str, ids: Sequence[int], spans: Sequence[Span], tokenizer: Tokenizer, *, segments: Sequence[int] | None = None
) -> TokenizedText:
    """Return a text with its tokens at these spans."""
    special = tokenizer.special_ids
    tokens = (
        Token(id_, tokenizer.token_text(id_), start, end, id_ in special, segment)
        for id_, (start, end), segment in zip(ids, spans, segments or [0] * len(ids), strict=True)
    )
    return TokenizedText(text, tuple(tokens))


def tokenize_input(
    text: str, tokenizer: Tokenizer, *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> TokenizedText:
    """Tokenize an input text, with special ids before and after it."""
    ids = [*before, *tokenizer.encode(text), *after]
    spans = [*[(0, 0)] * len(before), *tokenizer.offsets(text), *[(len(text), len(text))] * len(after)]
    return build_tokenized_text(text, ids, spans, tokenizer)


def tokenize_output(
    text: str, ids: Sequence[int], tokenizer: Tokenizer, *, ended: bool, context: Sequence[int] = ()
) -> TokenizedText:
    """Return a generated text with its tokens; with `ended`, the last id is the end token."""
    content = ids[:-1] if ended else ids
    spans = find_token_spans(content, tokenizer, text, context=context)
    return build_tokenized_text(text, ids, [*spans, *[(len(text), len(text))] * (len(ids) - len(content))], tokenizer)


def shift(token: Token, by: int) -> Token:
    """Move a token's span."""
    return Token(token.id, token.text, token.start + by, token.end + by, token.special, token.segment)


def concatenate(first: TokenizedText, second: TokenizedText) -> TokenizedText:
    """Join two texts."""
    moved = (shift(token, len(first.text)) for token in second.tokens)
    return TokenizedText(first.text + second.text, (*first.tokens, *moved))
