"""Word alignment from cross-attention: which target words attended to which source words.

Attention is not alignment. A decoder often attends to the word it is translating, but not always: it may also attend
to the end of the sentence, or to the word it will need next. Read the links as a hint.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sightline.tracing.tokenized_text import Span, TokenizedText, word_indices, word_spans

WARNING = (
    "Attention is not alignment: a decoder often attends to the word it is translating, but not always. "
    "Read the links as a hint."
)

MIN_SHARE_OF_BEST = 0.5
"""A target word is linked to the source word it attends to most, and to any other with this share of that weight."""


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


@dataclass(frozen=True)
class Alignment:
    """The links of a trace, and the attention they come from."""

    links: tuple[Link, ...]
    attention: str
    """The attention, averaged over its heads: `decoder.5.cross_attention`."""
    warning: str = WARNING
    """Show it wherever the links are shown."""


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
