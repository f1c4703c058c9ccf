"""Classification of texts, pairs of texts, or words."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.bundle import Bundle
from sightline.data.datasets.batch import BertInputs, pad
from sightline.data.datasets.encoding import space_words
from sightline.errors import InputError
from sightline.model import TextEncoder
from sightline.model.config import Head
from sightline.pipelines.pipeline import BATCH_TOKENS, Pipeline, build_tokenized_text
from sightline.tracing import Choice, TokenizedText, Trace, TraceOptions, run_trace

OneOrPair: TypeAlias = str | tuple[str, str]


@dataclass(frozen=True)
class Classification:
    """The most likely class, with the probabilities of all classes."""

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True)
class ClassifiedWord(Classification):
    """A word of a sentence, with its class."""

    word: str


class Classifier(Pipeline):
    """Classifies texts, pairs of texts, or the words of a sentence."""

    interfaces = (TextEncoder,)
    model: TextEncoder

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        config: Any = self.model.config
        self.per_word: bool = (
            self.task_config.per_word if self.task_config else "sequence_classification" not in config.heads
        )
        """Whether the model classifies words, not texts."""
        self.pair: bool | None = self.task_config.pair if self.task_config else None
        """Whether the model classifies pairs of texts; None if that is not known."""
        names = self.task_config.labels if self.task_config else ()
        self.labels: tuple[str, ...] = names or tuple(map(str, range(config.n_classes)))
        """Class names by id; numbers if they have none."""

    @property
    def head(self) -> Head:
        """The head for words, or for texts."""
        return "token_classification" if self.per_word else "sequence_classification"

    def classify(
        self, texts: Sequence[OneOrPair], *, truncate: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[Classification]:
        """Return the class of each text or pair of texts; `truncate` shortens those that are too long."""
        if self.per_word:
            raise InputError("this model classifies words, not texts: use tag")
        rows, kinds = self.encode_inputs(texts, truncate=truncate)
        self.check_lengths(rows)
        results = torch.zeros(len(texts), len(self.labels))
        with self.inference_mode():
            for chosen, ids, lengths in self.iterate_batches(rows, batch_tokens=batch_tokens):
                segments, _ = pad([kinds[number] for number in chosen], device=self.embedding_weight.device)
                pooled = self.model.pool(self.model(ids, segments=segments, lengths=lengths, packed=True), lengths)
                results[chosen] = self.model.sequence_classification(pooled).float().softmax(dim=1).cpu()
        return [self.build_classification(row) for row in results]

    def tag(self, words: Sequence[str]) -> list[Classification]:
        """Return the class of each word of a sentence."""
        return self.tags([words])[0]

    def tags(
        self, sentences: Sequence[Sequence[str]], *, truncate: bool = False, batch_tokens: int = BATCH_TOKENS
    ) -> list[list[Classification]]:
        """Return the classes of the words of each sentence; `truncate` drops words that do not fit."""
        if not self.per_word:
            raise InputError("this model classifies texts, not words: use classify")
        before, after = self.frame()
        word_ids = [self.encode_words(words) for words in sentences]
        if truncate and self.max_length is not None:
            room = self.max_length - len(before) - len(after)
            word_ids = [words[: bisect_right(list(accumulate(map(len, words))), room)] for words in word_ids]
        rows = [[*before, *(id_ for pieces in words for id_ in pieces), *after] for words in word_ids]
        self.check_lengths(rows, what="sentence")
        results: list[list[Classification]] = [[] for _ in sentences]
        with self.inference_mode():
            for chosen, ids, lengths in self.iterate_batches(rows, batch_tokens=batch_tokens):
                scores = self.model.token_classification(self.model(ids, lengths=lengths, packed=True))
                texts = torch.split(scores.float().softmax(dim=1).cpu(), lengths.tolist())
                for number, probabilities in zip(chosen, texts, strict=True):
                    firsts = first_token_positions(word_ids[number], after=len(before))
                    results[number] = [self.build_classification(row) for row in probabilities[firsts]]
        return results

    def tagged_words(self, sentences: Sequence[Sequence[str]]) -> list[list[ClassifiedWord]]:
        """Return the words of each sentence with their classes."""
        return [
            [ClassifiedWord(**vars(found), word=word) for word, found in zip(words, classes, strict=True)]
            for words, classes in zip(sentences, self.tags(sentences), strict=True)
        ]

    def trace(self, text: OneOrPair | Sequence[str], **options: object) -> Trace:
        """Trace the model on a text, a pair of texts or, if it classifies words, a list of words.

        `options` are those of `tracing.TraceOptions`; the candidates are the classes.
        """
        trace_options, _ = TraceOptions.of(options, generates=False)
        source, firsts = self.tokenize_words(text) if self.per_word else (self.tokenize(text), [0])
        self.check_lengths([source.tokens])
        with self.inference_mode():
            work = self.forward_pass(
                [token.id for token in source.tokens], segments=[token.segment for token in source.tokens]
            )
            choices = [Choice(row) for row in firsts]
            return run_trace(work, trace_options, choices, source=source, task=self.task, name=self.labels.__getitem__)

    def parse_input(self, given: str | Sequence[str]) -> str | Sequence[str]:
        """Return the words of a sentence if the model classifies words, else a text or a pair of texts."""
        if self.per_word:
            return (given if isinstance(given, str) else " ".join(given)).split()
        if isinstance(given, str):
            return given
        if len(given) != 2:
            raise InputError("this model takes one text, or a pair of texts", option="input")
        return given[0], given[1]

    def tokenize(self, text: OneOrPair | Sequence[str]) -> TokenizedText:
        """Return a text, or a pair a line each, as a trace shows it."""
        if not isinstance(text, str) and len(text) != 2:
            raise InputError(f"this model classifies texts: a text or a pair of texts is needed, not {len(text)}")
        pair: OneOrPair = text if isinstance(text, str) else (text[0], text[1])
        ids, segments = self.encode_inputs([pair], truncate=False)
        texts = [pair] if isinstance(pair, str) else list(pair)
        spans, begin = [(0, 0)], 0
        for one in texts:
            spans += [(begin + start, begin + end) for start, end in self.tokenizer.offsets(one)]
            spans.append((begin + len(one), begin + len(one)))
            begin += len(one) + 1
        return build_tokenized_text("\n".join(texts), ids[0], spans, self.tokenizer, segments=segments[0])

    def tokenize_words(self, text: OneOrPair | Sequence[str]) -> tuple[TokenizedText, list[int]]:
        """Tokenize words for a trace; return also the token at which each is classified."""
        words = text.split() if isinstance(text, str) else list(text)
        word_ids = self.encode_words(words)
        before, after = self.frame()
        spans, begin = [(0, 0)], 0
        for word in space_words(words):
            spans += [(begin + start, begin + end) for start, end in self.tokenizer.offsets(word)]
            begin += len(word)
        whole = "".join(space_words(words))
        ids = [*before, *(id_ for pieces in word_ids for id_ in pieces), *after]
        firsts: list[int] = first_token_positions(word_ids, after=len(before)).tolist()
        return build_tokenized_text(whole, ids, [*spans, (len(whole), len(whole))], self.tokenizer), firsts

    def encode_inputs(self, texts: Sequence[OneOrPair], *, truncate: bool) -> tuple[list[list[int]], list[list[int]]]:
        """Return the input ids of texts and pairs with special tokens, and the segment of each token."""
        if isinstance(texts, str):
            raise InputError("expected a list of texts, not one text: put it in brackets")
        pairs = [(text, None) if isinstance(text, str) else text for text in texts]
        if self.pair is not None and any((second is not None) != self.pair for _, second in pairs):
            what = "pairs of texts, not single ones" if self.pair else "single texts, not pairs"
            give = "give two texts, with --pair on the command line" if self.pair else "give one text"
            raise InputError(f"this model classifies {what}: {give}")
        firsts = self.tokenizer.encode_batch([first for first, _ in pairs])
        seconds = self.tokenizer.encode_batch([second or "" for _, second in pairs])
        framed = [
            BertInputs.of(
                [np.array(first, dtype=np.int64)],
                None if pair[1] is None else [np.array(second, dtype=np.int64)],
                cls_id=self.require_special_id("cls"),
                sep_id=self.require_special_id("sep"),
                max_length=self.max_length if truncate else None,
            )
            for pair, first, second in zip(pairs, firsts, seconds, strict=True)
        ]
        return [one.ids[0].tolist() for one in framed], [one.segments[0].tolist() for one in framed]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Tokenize each word of a sentence, all but the first with the space before it, as in running text."""
        if isinstance(words, str):
            raise InputError("expected a list of words, not one text: split it")
        pieces = self.tokenizer.encode_batch(space_words(words))
        if empty := [number for number, word in enumerate(pieces, start=1) if not word]:
            raise InputError(f"word {empty[0]} is empty: there is nothing to classify")
        return pieces

    def build_classification(self, probabilities: Float[Tensor, "C"]) -> Classification:
        """Return the probabilities by class name."""
        values: list[float] = probabilities.tolist()
        best = max(range(len(values)), key=values.__getitem__)
        return Classification(self.labels[best], values[best], dict(zip(self.labels, values, strict=True)))


def first_token_positions(words: Sequence[Sequence[int]], *, after: int) -> Int[Tensor, "W"]:
    """Return the position of each word's first token, with `after` tokens before the first word."""
    lengths = torch.tensor([len(word) for word in words], dtype=torch.long)
    return lengths.cumsum(0) - lengths + after
