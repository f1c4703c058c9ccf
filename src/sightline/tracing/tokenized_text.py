"""A text as a model sees it: its tokens, their spans in the text, and the words they form."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]

WORD = re.compile(r"\S+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese): each token counts as a word."""


@dataclass(frozen=True)
class Token:
    """One token and its span in the text."""

    id: int
    text: str
    r"""Readable; a space before a word is part of it, an incomplete character is escaped as \xe6."""
    start: int
    end: int
    """Its characters are `text[start:end]` of the tokenized text; none for most special tokens."""
    special: bool = False
    """Whether it is a special token: start, end, [CLS], [MASK], a language tag."""
    segment: int = 0
    """Which text of a pair it belongs to."""


@dataclass(frozen=True)
class Word:
    """A word and the tokens that form it."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    """Indices of its tokens."""
    special: bool = False


@dataclass(frozen=True)
class TokenizedText:
    """A text and its tokens, in order."""

    text: str
    tokens: tuple[Token, ...]

    def words(self) -> tuple[Word, ...]:
        """Return the tokens grouped into words; special tokens, and tokens of white space, stand alone."""
        return group_words(self.text, self.tokens)


EMPTY_TEXT = TokenizedText("", ())


def group_words(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    """Return tokens grouped into words: every token is part of exactly one, in order."""
    owners = word_indices([(token.start, token.end) for token in tokens], text, word_spans(text))
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        if groups and continues_word(token, tokens[groups[-1][-1]], owners[index], owners[groups[-1][-1]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return tuple(build_word(text, tokens, indices) for indices in groups)


def continues_word(token: Token, before: Token, owner: int | None, owner_before: int | None) -> bool:
    """Tell whether a token continues the word of the token before it."""
    if token.special or before.special:
        return False
    if (token.start, token.end) == (before.start, before.end) and token.end > token.start:
        return True  # bytes of one character
    same_word = owner is not None and owner == owner_before
    return same_word and not UNSPACED.search(token.text) and not UNSPACED.search(before.text)


def build_word(text: str, tokens: Sequence[Token], indices: Sequence[int]) -> Word:
    """Return the word that these tokens form."""
    first, last = tokens[indices[0]], tokens[indices[-1]]
    if first.special or first.start == first.end:
        return Word(first.text, first.start, first.end, tuple(indices), first.special)
    raw = text[first.start : last.end]
    n_spaces = len(raw) - len(raw.lstrip()) if raw.strip() else 0
    start = first.start + n_spaces
    return Word(text[start : last.end], start, last.end, tuple(indices))


def word_spans(text: str) -> list[Span]:
    """Return the span of each word: whatever stands between white space."""
    return [match.span() for match in WORD.finditer(text)]


def word_indices(tokens: Sequence[Span], text: str, words: Sequence[Span]) -> list[int | None]:
    """Return for each token the index of its word; None for white space."""
    owners: list[int | None] = [None] * len(text)
    for number, (start, end) in enumerate(words):
        owners[start:end] = [number] * (end - start)
    return [next((owner for owner in owners[start:end] if owner is not None), None) for start, end in tokens]
