"""A text as a model sees it, its tokens and words, and attention and alignment between words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

Span = tuple[int, int]
"""Start and end in a text, in characters."""


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


def concatenate(first: TokenizedText, second: TokenizedText) -> TokenizedText:
    """Join two texts; the tokens of the second move behind the first."""
    shift = len(first.text)
    moved = (replace(token, start=token.start + shift, end=token.end + shift) for token in second.tokens)
    return TokenizedText(first.text + second.text, (*first.tokens, *moved))


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


UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words (Thai, Lao, Burmese, Khmer, Japanese, Chinese): each token counts as a word."""


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


WORD = re.compile(r"\S+")


def word_spans(text: str) -> list[Span]:
    """Return the span of each word: whatever stands between white space."""
    return [match.span() for match in WORD.finditer(text)]


def word_indices(tokens: Sequence[Span], text: str, words: Sequence[Span]) -> list[int | None]:
    """Return for each token the index of its word; None for white space."""
    owners: list[int | None] = [None] * len(text)
    for number, (start, end) in enumerate(words):
        owners[start:end] = [number] * (end - start)
    return [next((owner for owner in owners[start:end] if owner is not None), None) for start, end in tokens]


@dataclass(frozen=True)
class WordAttention:
    """Every attention of a trace, with the tokens of each word merged."""

    source: tuple[Word, ...]
    target: tuple[Word, ...]
    inputs: tuple[Word, ...]
    attention: dict[str, Float[np.ndarray, "..."]]
    """By attention name (`decoder.1.cross_attention`): heads × query words × key words."""

    def axes(self, name: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Return the words of the rows (queries) and of the columns (keys)."""
        if "cross_attention" in name:
            return self.target, self.source
        return (self.source, self.source) if name.startswith("encoder") else (self.inputs, self.inputs)


def aggregate_by_word(
    weights: Float[np.ndarray, "H T S"], rows: Sequence[Word], columns: Sequence[Word]
) -> Float[np.ndarray, "H words others"]:
    """Sum the weights over the tokens of each key word; average over the tokens of each query word."""
    received = [weights[:, :, list(word.tokens)].sum(axis=2) for word in columns]
    by_column = np.stack(received, axis=2) if received else weights[:, :, :0]
    means = [by_column[:, list(word.tokens)].mean(axis=1) for word in rows]
    return np.stack(means, axis=1) if means else by_column[:, :0]


@dataclass(frozen=True)
class Link:
    """A link between a source word and a target word, as character spans, and its attention weight.

    The weight is the share of the target word's attention: the mean over its tokens and the heads of the last layer.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float


WARNING = (
    "Attention is not alignment: a decoder often attends to the word it is translating, but not always. "
    "Read the links as a hint."
)


@dataclass(frozen=True)
class Alignment:
    """The links of a trace, and the attention they come from.

    Attention is not alignment. A decoder often attends to the word it is translating, but not always: it may also
    attend to the end of the sentence, or to the word it will need next. Read the links as a hint.
    """

    links: tuple[Link, ...]
    attention: str
    """The attention, averaged over its heads: `decoder.5.cross_attention`."""
    warning: str = WARNING
    """Show it wherever the links are shown."""


def build_alignment(
    attention: Float[np.ndarray, "T S"], source: TokenizedText, target: TokenizedText, *, name: str
) -> Alignment:
    """Return the alignment of two texts, from the attention of this name averaged over its heads."""
    found = find_links(
        attention,
        source=source.text,
        source_spans=[(token.start, token.end) for token in source.tokens],
        target=target.text,
        target_spans=[(token.start, token.end) for token in target.tokens],
    )
    return Alignment(found, name)


MIN_SHARE_OF_BEST = 0.5
"""A target word is linked to the source word it attends to most, and to any other with this share of that weight."""


def find_links(
    attention: Float[np.ndarray, "T S"],
    *,
    source: str,
    source_spans: Sequence[Span],
    target: str,
    target_spans: Sequence[Span],
) -> tuple[Link, ...]:
    """Return the links between the words of two texts, in target order."""
    source_words, target_words = word_spans(source), word_spans(target)
    if not source_words:
        return ()
    received = np.zeros((len(attention), len(source_words)))
    for token, word in enumerate(word_indices(source_spans, source, source_words)):
        if word is not None:
            received[:, word] += attention[:, token]
    owners = word_indices(target_spans, target, target_words)
    result = []
    for number, (start, end) in enumerate(target_words):
        rows = [token for token, word in enumerate(owners) if word == number]
        if not rows:
            continue
        weights: list[float] = received[rows].mean(axis=0).tolist()
        strongest = max(weights)
        result += [
            Link(*source_words[word], start, end, weight)
            for word, weight in enumerate(weights)
            if weight >= MIN_SHARE_OF_BEST * strongest > 0
        ]
    return tuple(result)
