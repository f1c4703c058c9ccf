"""Which words of a target looked at which words of its source.

Attention is not alignment. What a decoder looks at while it writes a word is often, but by no means always, what it
translates; it may as well look at the end of the sentence, or at the word it will need next. Read it as a hint.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sightline.tracing.passage import Span, word_spans, words_of

WARNING = (
    "Attention is not alignment: where a decoder looks while it writes a word is often, but not always, "
    "what it translates. Read the links as a hint."
)

SHARE_OF_BEST = 0.5
"""A target word is linked to the source word it looked at most, and to any other that got this share of that."""


@dataclass(frozen=True)
class Link:
    """A word of the source and a word of the target, as spans of characters, and how much attention one gave the other.

    The weight is the share of the target word's attention, mean over its tokens and over the heads of the last layer.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float


@dataclass(frozen=True)
class Alignment:
    """The links of a trace, and what they were read from."""

    links: tuple[Link, ...]
    attention: str
    """The attention that was averaged over its heads, as `decoder.5.cross_attention`."""
    warning: str = WARNING
    """To be shown wherever the links are."""


def links(
    attention: Float[np.ndarray, "T S"],
    *,
    source: str,
    source_spans: Sequence[Span],
    target: str,
    target_spans: Sequence[Span],
) -> tuple[Link, ...]:
    """Return the links between the words of two texts, in the order of the target."""
    source_words, target_words = word_spans(source), word_spans(target)
    if not source_words:
        return ()
    looked = np.zeros((len(attention), len(source_words)))
    for token, word in enumerate(words_of(source_spans, source, source_words)):
        if word is not None:
            looked[:, word] += attention[:, token]
    places = words_of(target_spans, target, target_words)
    result = []
    for number, (start, end) in enumerate(target_words):
        rows = [token for token, word in enumerate(places) if word == number]
        if not rows:
            continue
        weights: list[float] = looked[rows].mean(axis=0).tolist()
        strongest = max(weights)
        result += [
            Link(*source_words[word], start, end, weight)
            for word, weight in enumerate(weights)
            if weight >= SHARE_OF_BEST * strongest > 0
        ]
    return tuple(result)
