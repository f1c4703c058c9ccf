"""Classify: a text, a pair of texts, or words in, the class of each out."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.bundle import Bundle
from sightline.errors import InputError
from sightline.model import Bert
from sightline.pipelines.batches import BATCH_TOKENS
from sightline.pipelines.passages import passage
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.rows import grid
from sightline.text.batch import Framed
from sightline.text.encoding import spaced
from sightline.tracing import BertPass, Choice, Passage, Trace, Wishes, look

OneOrPair: TypeAlias = str | tuple[str, str]


@dataclass(frozen=True)
class Classification:
    """The likeliest class of something, and how likely every class is."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Classifier(Pipeline):
    """Tells classes apart, of texts or of words."""

    takes = (Bert,)
    model: Bert

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        config = self.model.config
        self.per_word: bool = self.purpose.per_word if self.purpose else "sequence_classes" not in config.heads
        """Whether words are classified, not texts."""
        names = self.purpose.labels if self.purpose else ()
        self.labels: tuple[str, ...] = names or tuple(map(str, range(config.n_classes)))
        """The classes, by id; numbers where they have no names."""

    def classify(
        self, texts: Sequence[OneOrPair], *, cut: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Classification]:
        """Return the class of each text, or pair of texts; with `cut`, of as much as the model can take."""
        if self.per_word:
            raise InputError("this model classifies words, not texts: use tag")
        rows, kinds = self.framed(texts, cut=cut)
        self.check_lengths(rows)
        results = torch.zeros(len(texts), len(self.labels))
        with self.at_work():
            for chosen, ids, lengths in self.in_batches(rows, batch_tokens=batch_tokens):
                segments, _ = grid([kinds[number] for number in chosen], like=self.weight)
                pooled = self.model.pool(self.model(ids, segments=segments, lengths=lengths, packed=True), lengths)
                results[chosen] = self.model.sequence_classes(pooled).float().softmax(dim=1).cpu()
        return [self.classification(row) for row in results]

    def tag(self, words: Sequence[str]) -> list[Classification]:
        """Return the class of each word of a sentence."""
        return self.tags([words])[0]

    def tags(
        self, sentences: Sequence[Sequence[str]], *, cut: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[list[Classification]]:
        """Return the classes of the words of each sentence; with `cut`, of as many words as the model can take."""
        if not self.per_word:
            raise InputError("this model classifies texts, not words: use classify")
        before, after = self.frame()
        spelled = [self.spelled(words) for words in sentences]
        if cut and self.max_length is not None:
            room = self.max_length - len(before) - len(after)
            spelled = [words[: bisect_right(list(accumulate(map(len, words))), room)] for words in spelled]
        rows = [[*before, *(id_ for pieces in words for id_ in pieces), *after] for words in spelled]
        self.check_lengths(rows, what="sentence")
        results: list[list[Classification]] = [[] for _ in sentences]
        with self.at_work():
            for chosen, ids, lengths in self.in_batches(rows, batch_tokens=batch_tokens):
                scores = self.model.token_classes(self.model(ids, lengths=lengths, packed=True))
                texts = torch.split(scores.float().softmax(dim=1).cpu(), lengths.tolist())
                for number, probabilities in zip(chosen, texts, strict=True):
                    firsts = first_tokens(spelled[number], after=len(before))
                    results[number] = [self.classification(row) for row in probabilities[firsts]]
        return results

    def trace(self, text: OneOrPair | Sequence[str], **options: object) -> Trace:
        """Return what the model does with a text, a pair of texts, or, where it classifies words, a list of words.

        `options` are those of `tracing.Wishes`; the candidates are the classes.
        """
        wishes, _ = Wishes.of(options, writes=False)
        source, firsts = self.words_passage(text) if self.per_word else (self.text_passage(text), [0])
        self.check_lengths([source.tokens])
        with self.at_work():
            work = BertPass(
                self.model,
                [token.id for token in source.tokens],
                head="token_classes" if self.per_word else "sequence_classes",
                segments=[token.segment for token in source.tokens],
            )
            seen = look(work, wishes, [Choice(row) for row in firsts], name=self.labels.__getitem__)
        return self.traced(seen, source)

    def text_passage(self, text: OneOrPair | Sequence[str]) -> Passage:
        """Return a text, or a pair a line each, as a trace shows it."""
        if not isinstance(text, str) and len(text) != 2:
            raise InputError(f"this model classifies texts: a text or a pair of texts is needed, not {len(text)}")
        pair: OneOrPair = text if isinstance(text, str) else (text[0], text[1])
        ids, segments = self.framed([pair], cut=False)
        texts = [pair] if isinstance(pair, str) else list(pair)
        spans, begin = [(0, 0)], 0
        for one in texts:
            spans += [(begin + start, begin + end) for start, end in self.tokenizer.spans(one)]
            spans.append((begin + len(one), begin + len(one)))
            begin += len(one) + 1
        return passage("\n".join(texts), ids[0], spans, self.tokenizer, segments=segments[0])

    def words_passage(self, text: OneOrPair | Sequence[str]) -> tuple[Passage, list[int]]:
        """Return words as a trace shows them, and at which token each is classified."""
        words = text.split() if isinstance(text, str) else list(text)
        spelled = self.spelled(words)
        before, after = self.frame()
        spans, begin = [(0, 0)], 0
        for word in spaced(words):
            spans += [(begin + start, begin + end) for start, end in self.tokenizer.spans(word)]
            begin += len(word)
        whole = "".join(spaced(words))
        ids = [*before, *(id_ for pieces in spelled for id_ in pieces), *after]
        firsts: list[int] = first_tokens(spelled, after=len(before)).tolist()
        return passage(whole, ids, [*spans, (len(whole), len(whole))], self.tokenizer), firsts

    def framed(self, texts: Sequence[OneOrPair], *, cut: bool) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of texts and pairs as the model reads them, and which text each token belongs to."""
        if isinstance(texts, str):
            raise InputError("a list of texts is needed, not one text: put it in brackets")
        pairs = [(text, None) if isinstance(text, str) else text for text in texts]
        firsts = self.tokenizer.encode_batch([first for first, _ in pairs])
        seconds = self.tokenizer.encode_batch([second or "" for _, second in pairs])
        framed = [
            Framed.of(
                [np.array(first, dtype=np.int64)],
                None if pair[1] is None else [np.array(second, dtype=np.int64)],
                cls_id=self.role_id("cls"),
                sep_id=self.role_id("sep"),
                max_length=self.max_length if cut else None,
            )
            for pair, first, second in zip(pairs, firsts, seconds, strict=True)
        ]
        return [one.ids[0].tolist() for one in framed], [one.segments[0].tolist() for one in framed]

    def spelled(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of each word of a sentence: each but the first brings its blank along, as in running text."""
        if isinstance(words, str):
            raise InputError("a list of words is needed, not one text: split it")
        pieces = self.tokenizer.encode_batch(spaced(words))
        if empty := [number for number, word in enumerate(pieces, start=1) if not word]:
            raise InputError(f"word {empty[0]} is empty: there is nothing to classify")
        return pieces

    def classification(self, probabilities: Float[Tensor, "C"]) -> Classification:
        """Return the probabilities of the classes by their names."""
        values: list[float] = probabilities.tolist()
        best = max(range(len(values)), key=values.__getitem__)
        return Classification(self.labels[best], values[best], dict(zip(self.labels, values, strict=True)))


def first_tokens(words: Sequence[Sequence[int]], *, after: int) -> Int[Tensor, "W"]:
    """Return where the first token of each word stands, so many tokens standing before them all."""
    lengths = torch.tensor([len(word) for word in words], dtype=torch.long)
    return lengths.cumsum(0) - lengths + after
