"""Words as vectors, and which are near each other. Whole words, though a model knows only pieces of them.

A word's vector is the mean of its tokens' embeddings. It is spelled as in running text, with the blank before it that
most tokenizers make part of its first token; a blank that is a token of its own does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sightline.errors import InputError
from sightline.text import Tokenizer

AT_ONCE = 16_384
"""Words whose vectors are in memory together."""


@dataclass(frozen=True)
class Neighbor:
    """A word, and the cosine of the angle between its vector and that of the word asked for."""

    word: str
    similarity: float


class WordList:
    """The words a model's text was made of; how they are spelled is found once, their vectors each time."""

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer) -> None:
        self.words = words
        self.tokenizer = tokenizer

    @cached_property
    def spelled(self) -> list[list[int]]:
        """The ids of every word of the list."""
        return self.spell(self.words)

    def spell(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of words as they stand in running text."""
        blank = self.tokenizer.encode(" ")
        rows = self.tokenizer.encode_batch([f" {word}" for word in words])
        return [row[len(blank) :] if row[: len(blank)] == blank else row for row in rows]

    def vectors(self, words: Sequence[str], weight: Float[Tensor, "V E"]) -> Float[Tensor, "n E"]:
        """Return the vectors of any words, from the embeddings of all tokens."""
        rows = self.spell(words)
        for number, (word, ids) in enumerate(zip(words, rows, strict=True), start=1):
            if not word.strip() or not ids:
                which = "this" if len(words) == 1 else f"number {number:,} of {len(words):,}"
                raise InputError(f"{which} is not a word: there is nothing to read in it")
        return mean_embeddings(rows, weight)

    def nearest(self, word: str, weight: Float[Tensor, "V E"], *, n: int) -> list[Neighbor]:
        """Return the n words of the list that are nearest to a word, itself left out; in a tie the more frequent."""
        if not self.words:
            raise InputError("this model has no list of words (words.txt): there is nothing to be near to")
        wanted = self.vectors([word], weight)
        similarities = torch.cat(
            [
                F.cosine_similarity(wanted, mean_embeddings(self.spelled[start : start + AT_ONCE], weight))
                for start in range(0, len(self.words), AT_ONCE)
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
