"""Sentence pairs for next-sentence prediction (BERT): half are consecutive, half are not."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.stateless_random import permutation, random_bits

IS_NEXT, NEGATIVE = 3, 4
"""Independent random streams; 1 and 2 belong to batching."""

ATTEMPTS = 8


@dataclass(frozen=True)
class SentencePairs:
    """Indices of sentences A and B, and whether B does not follow A."""

    first: Int[ndarray, " pairs"]
    second: Int[ndarray, " pairs"]
    not_next: Bool[ndarray, " pairs"]


def pair_sentences(documents: Int[ndarray, " n"], *, seed: int, epoch: int) -> SentencePairs:
    """Pair every sentence that has a successor with it, or with a negative from another document: half and half.

    `documents` gives the document of each sentence, in the order of the text. With a single document a negative is any
    other sentence. A pure function of (seed, epoch).
    """
    n = len(documents)
    first = np.flatnonzero(documents[1:] == documents[:-1])
    many_documents = n > 0 and bool(documents[0] != documents[-1])
    if not len(first) or (not many_documents and n < 3):
        raise InputError(
            "next-sentence prediction needs a document with two consecutive sentences (one per line, a blank line "
            "between documents) and a third sentence: give such a text, or remove nsp from model.heads"
        )
    not_next = np.zeros(len(first), dtype=np.bool_)
    not_next[permutation(len(first), seed, epoch, IS_NEXT)[: len(first) // 2]] = True
    second = np.where(
        not_next, draw_negatives(first, documents, seed=seed, epoch=epoch, many_documents=many_documents), first + 1
    )
    return SentencePairs(first, second, not_next)


def draw_negatives(
    first: Int[ndarray, " pairs"], documents: Int[ndarray, " n"], *, seed: int, epoch: int, many_documents: bool
) -> Int[ndarray, " pairs"]:
    """Draw a sentence for each that does not follow it."""
    n = len(documents)
    # Fallback if all attempts fail: the sentence after the end of a document is in another one.
    after = np.searchsorted(documents, documents[first], side="right") if many_documents else first + 2
    drawn: Int[ndarray, " pairs"] = after % n
    found = np.zeros(len(first), dtype=np.bool_)
    for attempt in range(ATTEMPTS):
        draw = (random_bits(seed, epoch, NEGATIVE, attempt, first) % np.uint64(n)).astype(np.int64)
        valid = documents[draw] != documents[first] if many_documents else (draw != first) & (draw != first + 1)
        drawn = np.where(~found & valid, draw, drawn)
        found |= valid
    return drawn
