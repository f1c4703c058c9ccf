"""Word vectors and nearest neighbors, for whole words, though a model only has subword tokens.

A word's vector is the mean of its token embeddings. It is tokenized as in running text, with the space before it that
most tokenizers make part of its first token; a space that is a token of its own does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sightline.data.tokenizers import Tokenizer
from sightline.errors import InputError

WORDS_PER_CHUNK = 16_384
"""Number of word vectors computed at a time, to bound memory."""


@dataclass(frozen=True)
class Neighbor:
    """A word and the cosine similarity of its vector to the query word's."""

    word: str
    similarity: float


class WordList:
    """The words of a model's training text; tokenized once, while vectors are computed anew for every query."""

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer) -> None:
        self.words = words
        self.tokenizer = tokenizer

    @cached_property
    def word_ids(self) -> list[list[int]]:
        """The token ids of every word of the list."""
        return self.encode_words(self.words)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Tokenize words as in running text."""
        space = self.tokenizer.encode(" ")
        rows = self.tokenizer.encode_batch([f" {word}" for word in words])
        return [row[len(space) :] if row[: len(space)] == space else row for row in rows]

    def vectors(self, words: Sequence[str], weight: Float[Tensor, "V E"]) -> Float[Tensor, "n E"]:
        """Return the vectors of any words, from the embedding matrix."""
        rows = self.encode_words(words)
        for number, (word, ids) in enumerate(zip(words, rows, strict=True), start=1):
            if not word.strip() or not ids:
                which = "this" if len(words) == 1 else f"number {number:,} of {len(words):,}"
                raise InputError(f"{which} is not a word: it is blank or has no tokens")
        return mean_embeddings(rows, weight)

    def nearest(self, word: str, weight: Float[Tensor, "V E"], *, n: int) -> list[Neighbor]:
        """Return the n words of the list nearest to a word, without itself; ties go to the more frequent word."""
        if not self.words:
            raise InputError("this model has no list of words (words.txt) to find neighbors in")
        query = self.vectors([word], weight)
        similarities = torch.cat(
            [
                F.cosine_similarity(query, mean_embeddings(self.word_ids[start : start + WORDS_PER_CHUNK], weight))
                for start in range(0, len(self.words), WORDS_PER_CHUNK)
            ]
        ).cpu()
        order: list[int] = similarities.sort(descending=True, stable=True).indices[: max(n, 0) + 1].tolist()
        found = [Neighbor(self.words[i], float(similarities[i])) for i in order if self.words[i] != word]
        return found[: max(n, 0)]


def mean_embeddings(rows: Sequence[Sequence[int]], weight: Float[Tensor, "V E"]) -> Float[Tensor, "n E"]:
    """Return the mean embedding of each row of ids."""
    ids = torch.tensor([id_ for row in rows for id_ in row], dtype=torch.long, device=weight.device)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long, device=weight.device)
    return F.embedding_bag(ids, weight, lengths.cumsum(0) - lengths, mode="mean")
