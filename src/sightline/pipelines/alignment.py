"""Which words of a translation looked at which words of its source.

Attention is not alignment. What a decoder looks at while it writes a word is often, but by no means always, what it
translates; it may as well look at the end of the sentence, or at the word it will need next. Read it as a hint.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.model import Recorder, Transformer
from sightline.pipelines.batches import batches
from sightline.pipelines.rows import grid
from sightline.pipelines.spelling import Speller, Spelling
from sightline.pipelines.steps import last_cross_attention
from sightline.text import Tokenizer

WORD = re.compile(r"\S+")
Span = tuple[int, int]

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


def attention_of(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    start_id: int,
    batch_tokens: int,
) -> list[Float[Tensor, "..."]]:
    """Return for each pair where every target token looked when it was written, by one pass with the target given."""
    point = last_cross_attention(model)
    found: list[Tensor] = [torch.empty(0, 0)] * len(sources)
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for chosen in batches(lengths, batch_tokens=batch_tokens):
        source, source_lengths = grid([sources[number] for number in chosen], like=model.output.weight)
        # The token at each place is written at the place before it, where the start stands for the first.
        read, read_lengths = grid([[start_id, *targets[number][:-1]] for number in chosen], like=model.output.weight)
        recorder = Recorder(point)
        memory = model.encode(source, lengths=source_lengths, packed=True)
        model.decode(read, memory, lengths=read_lengths, packed=True, probe=recorder)
        weights = recorder[point].mean(dim=1).cpu()  # B T S
        for row, number in enumerate(chosen):
            found[number] = weights[row, : len(targets[number]), : len(sources[number])]
    return found


def links(
    attention: Float[Tensor, "T S"],
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
    looked = torch.zeros(attention.size(0), len(source_words))
    for token, word in enumerate(words_of(source_spans, source, source_words)):
        if word is not None:
            looked[:, word] += attention[:, token]
    places = words_of(target_spans, target, target_words)
    result = []
    for number, (start, end) in enumerate(target_words):
        rows = [token for token, word in enumerate(places) if word == number]
        if not rows:
            continue
        weights: list[float] = looked[rows].mean(dim=0).tolist()
        strongest = max(weights)
        result += [
            Link(*source_words[word], start, end, weight)
            for word, weight in enumerate(weights)
            if weight >= SHARE_OF_BEST * strongest > 0
        ]
    return tuple(result)


def word_spans(text: str) -> list[Span]:
    """Return where each word stands: whatever is between blanks."""
    return [match.span() for match in WORD.finditer(text)]


def words_of(tokens: Sequence[Span], text: str, words: Sequence[Span]) -> list[int | None]:
    """Return for each token the number of the word it is part of; none for blanks."""
    owners: list[int | None] = [None] * len(text)
    for number, (start, end) in enumerate(words):
        owners[start:end] = [number] * (end - start)
    return [next((owner for owner in owners[start:end] if owner is not None), None) for start, end in tokens]


def written_spans(ids: Sequence[int], tokenizer: Tokenizer, text: str) -> list[Span]:
    """Return where in the text that was written each id stands; those that make a character together stand together."""
    speller, spelling, spans = Speller(tokenizer), Spelling(), list[Span]()
    for count in range(1, len(ids) + 1):
        start = min(len(spelling.text), len(text))
        spelling = speller.go_on(spelling, ids[:count], last=count == len(ids))
        if spelling.settled == count:
            spans += [(start, min(len(spelling.text), len(text)))] * (count - len(spans))
    return spans
