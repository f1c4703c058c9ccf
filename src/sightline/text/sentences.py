"""Pairs of sentences for "does B follow A?" (BERT): half are true neighbours, half are not."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.chance import bits, order

TRUE_OR_NOT, STRANGER = 3, 4
"""Draws of their own; 1 and 2 are those of batching."""

ATTEMPTS = 8


@dataclass(frozen=True)
class SentencePairs:
    """Numbers of sentences: A, B, and whether B does not follow A."""

    first: Int[ndarray, " pairs"]
    second: Int[ndarray, " pairs"]
    not_next: Bool[ndarray, " pairs"]


def sentence_pairs(documents: Int[ndarray, " n"], *, seed: int, epoch: int) -> SentencePairs:
    """Pair every sentence that has a successor with it, or with one from another document: half and half.

    `documents` says which document each sentence belongs to, in the order of the text. With a single document a
    stranger is any other sentence. Pure in (seed, epoch).
    """
    n = len(documents)
    first = np.flatnonzero(documents[1:] == documents[:-1])
    several = n > 0 and bool(documents[0] != documents[-1])
    if not len(first) or (not several and n < 3):
        raise InputError(
            "no document has two sentences that follow each other (a line each, a blank line between documents), with "
            "a third to mistake for one: give such a text, or do not ask for the next sentence"
        )
    not_next = np.zeros(len(first), dtype=np.bool_)
    not_next[order(len(first), seed, epoch, TRUE_OR_NOT)[: len(first) // 2]] = True
    second = np.where(not_next, strangers(first, documents, seed=seed, epoch=epoch, several=several), first + 1)
    return SentencePairs(first, second, not_next)


def strangers(
    first: Int[ndarray, " pairs"], documents: Int[ndarray, " n"], *, seed: int, epoch: int, several: bool
) -> Int[ndarray, " pairs"]:
    """Draw a sentence for each that does not follow it."""
    n = len(documents)
    # What remains when luck runs out: the sentence after the last of a document is in another one.
    after = np.searchsorted(documents, documents[first], side="right") if several else first + 2
    drawn: Int[ndarray, " pairs"] = after % n
    found = np.zeros(len(first), dtype=np.bool_)
    for attempt in range(ATTEMPTS):
        draw = (bits(seed, epoch, STRANGER, attempt, first) % np.uint64(n)).astype(np.int64)
        strange = documents[draw] != documents[first] if several else (draw != first) & (draw != first + 1)
        drawn = np.where(~found & strange, draw, drawn)
        found |= strange
    return drawn
