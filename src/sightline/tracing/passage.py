"""A text as a model sees it: its tokens, where each stands in the text, and which of them make a word together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]

WORD = re.compile(r"\S+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese: no blank tells where a word ends, so that each token is one."""


@dataclass(frozen=True)
class Token:
    """One token and its place in the text."""

    id: int
    text: str
    r"""As a person reads it; a blank before a word is part of it, half a character is written out as \xe6."""
    start: int
    end: int
    """The characters of the passage's text it stands for, `text[start:end]`; none for most special tokens."""
    special: bool = False
    """Whether it is not text: start, end, [CLS], [MASK], the tag of a language."""
    segment: int = 0
    """Which text of a pair it belongs to."""


@dataclass(frozen=True)
class Word:
    """Tokens that make a word together."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    """Their places among the tokens of the passage."""
    special: bool = False


@dataclass(frozen=True)
class Passage:
    """A text and its tokens, in order."""

    text: str
    tokens: tuple[Token, ...]

    def words(self) -> tuple[Word, ...]:
        """Return the tokens grouped to words; special tokens, and blanks that are tokens, stand alone."""
        return group(self.text, self.tokens)


def group(text: str, tokens: Sequence[Token]) -> tuple[Word, ...]:
    """Return tokens grouped to words: every token is part of exactly one, in order."""
    owners = words_of([(token.start, token.end) for token in tokens], text, word_spans(text))
    groups: list[list[int]] = []
    for place, token in enumerate(tokens):
        if groups and continues(token, tokens[groups[-1][-1]], owners[place], owners[groups[-1][-1]]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return tuple(word(text, tokens, places) for places in groups)


def continues(token: Token, before: Token, owner: int | None, owner_before: int | None) -> bool:
    """Say whether a token goes on with the word of the one before it."""
    if token.special or before.special:
        return False
    if (token.start, token.end) == (before.start, before.end) and token.end > token.start:
        return True  # bytes of one character
    same_word = owner is not None and owner == owner_before
    return same_word and not UNSPACED.search(token.text) and not UNSPACED.search(before.text)


def word(text: str, tokens: Sequence[Token], places: Sequence[int]) -> Word:
    """Return the word that some tokens make."""
    first, last = tokens[places[0]], tokens[places[-1]]
    if first.special or first.start == first.end:
        return Word(first.text, first.start, first.end, tuple(places), first.special)
    raw = text[first.start : last.end]
    blank = len(raw) - len(raw.lstrip()) if raw.strip() else 0
    start = first.start + blank
    return Word(text[start : last.end], start, last.end, tuple(places))


def word_spans(text: str) -> list[Span]:
    """Return where each word stands: whatever is between blanks."""
    return [match.span() for match in WORD.finditer(text)]


def words_of(tokens: Sequence[Span], text: str, words: Sequence[Span]) -> list[int | None]:
    """Return for each token the number of the word it is part of; none for blanks."""
    owners: list[int | None] = [None] * len(text)
    for number, (start, end) in enumerate(words):
        owners[start:end] = [number] * (end - start)
    return [next((owner for owner in owners[start:end] if owner is not None), None) for start, end in tokens]
