"""Batch sources: the batches of every epoch, built lazily, one class per task.

`epoch(k)[position]` depends only on the seed, k and the position, so a resumed run reads exactly what the uninterrupted
run would have read. Knows no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, overload, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray

from sightline.data.datasets.batch import Batch, BertInputs, LabeledBatch, PairBatch, TaggedBatch, TextBatch
from sightline.data.datasets.batching import Batches, BatchSettings, Epoch
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.datasets.masking import Masker
from sightline.data.datasets.stateless_random import permutation, random_bits
from sightline.data.tokenizers.tokenizer import Tokenizer
from sightline.errors import InputError, SettingsError

IS_NEXT, NEGATIVE, OFFSET = 3, 4, 8
"""Independent random streams; 1 and 2 belong to batching, 5 to 7 to masking."""


class LazyBatches(Sequence[Batch]):
    """The batches of one epoch, each built when accessed."""

    def __init__(self, epoch: Epoch, build: Callable[[Int[ndarray, " some"]], Batch]) -> None:
        self._epoch, self._build = epoch, build

    def __len__(self) -> int:
        return len(self._epoch)

    @overload
    def __getitem__(self, position: int) -> Batch: ...
    @overload
    def __getitem__(self, position: slice) -> list[Batch]: ...
    def __getitem__(self, position: int | slice) -> Batch | list[Batch]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        return self._build(self._epoch[position])

    @property
    def sizes(self) -> Int[ndarray, " batches"]:
        """Tokens of every batch, counting padding."""
        return self._epoch.sizes

    @property
    def padding_share(self) -> float:
        """Fraction of the batches that is padding."""
        return self._epoch.padding_share


@runtime_checkable
class BatchSource(Protocol):
    """An endless supply of batches, one epoch at a time."""

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        ...


@dataclass(frozen=True)
class RankSlice:
    """The slice of every batch that this rank reads, with the batch size and the seed of the order."""

    settings: BatchSettings
    seed: int
    rank: int = 0
    world_size: int = 1

    def batches(self, lengths: Int[ndarray, "..."]) -> Batches:
        """Batch examples of these lengths."""
        return Batches(lengths, self.settings, seed=self.seed, rank=self.rank, world_size=self.world_size)


class PairBatchSource:
    """Source and target pairs."""

    def __init__(
        self,
        dataset: EncodedDataset,
        examples: Int[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        source: Tokenizer,
        target: Tokenizer,
    ) -> None:
        self._dataset, self._examples = dataset, examples
        self._source_pad = require_id(source.pad_id, "padding")
        self._pad, self._start = require_id(target.pad_id, "padding"), require_id(target.start_id, "start")
        self._end = require_id(target.end_id, "end")
        # Targets are read after the start token.
        self._batches = rank_slice.batches(dataset.lengths[examples] + np.array([0, 1]))

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> PairBatch:
        examples = self._examples[numbers]
        return PairBatch.of(
            self._dataset.sequences(examples, 0),
            self._dataset.sequences(examples, 1),
            source_pad_id=self._source_pad,
            pad_id=self._pad,
            start_id=self._start,
            end_id=self._end,
        )


class Blocks:
    """The sequences of a dataset (or of one split) as one stream of ids, in blocks.

    Consecutive blocks overlap by one token, so that every token but the very first is predicted once. The last block
    may be shorter. The first block begins `offset` tokens into the stream: with another offset in every epoch, a token
    is not always predicted from the same context.
    """

    def __init__(
        self, dataset: EncodedDataset, *, length: int, in_split: Bool[ndarray, " n"] | None = None, offset: int = 0
    ) -> None:
        if length < 1:
            raise InputError(f"a block needs at least 1 token, not {length}")
        self._dataset, self._length, self._offset = dataset, length, offset
        self._examples = np.arange(len(dataset)) if in_split is None else np.flatnonzero(in_split)
        self._starts = np.concatenate([[0], np.cumsum(dataset.lengths[self._examples, 0])])
        if self.n_ids < 2:
            raise InputError("the text has fewer than two tokens: there is nothing to predict")

    @property
    def n_ids(self) -> int:
        """Number of tokens in the stream."""
        return int(self._starts[-1]) - self._offset

    def __len__(self) -> int:
        return -(-(self.n_ids - 1) // self._length)

    @property
    def lengths(self) -> Int[ndarray, " blocks"]:
        """Number of predicted tokens in each block."""
        lengths = np.full(len(self), self._length)
        lengths[-1] = self.n_ids - 1 - self._length * (len(self) - 1)
        return lengths

    def block(self, number: int) -> Int[ndarray, " length_and_one"]:
        """Return the ids of a block: its inputs and one more token, the target of the last one."""
        start = self._offset + number * self._length
        stop = min(start + self._length + 1, self._offset + self.n_ids)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        ids = np.concatenate(self._dataset.sequences(self._examples[first:last]))
        return ids[start - int(self._starts[first]) : stop - int(self._starts[first])]


class TextBatchSource:
    """Running text in blocks; with `random_offset` they begin elsewhere in every epoch."""

    def __init__(
        self,
        dataset: EncodedDataset,
        in_split: Bool[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        tokenizer: Tokenizer,
        length: int,
        random_offset: bool = True,
    ) -> None:
        self._dataset, self._in_split, self._rank_slice = dataset, in_split, rank_slice
        self._length, self._random_offset = length, random_offset
        self._pad = require_id(tokenizer.pad_id, "padding")

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the text."""
        blocks = self._blocks(epoch)
        return LazyBatches(
            self._rank_slice.batches(blocks.lengths).epoch(epoch),
            lambda numbers: TextBatch.of([blocks.block(number) for number in numbers.tolist()], pad_id=self._pad),
        )

    def _blocks(self, epoch: int) -> Blocks:
        blocks = Blocks(self._dataset, length=self._length, in_split=self._in_split)
        if not self._random_offset:
            return blocks
        offset = int(
            random_bits(self._rank_slice.seed, epoch, OFFSET)[0] % np.uint64(min(self._length, blocks.n_ids // 2))
        )
        return Blocks(self._dataset, length=self._length, in_split=self._in_split, offset=offset)


class MaskedBatchSource:
    """Running text in BERT input blocks, masked anew in every epoch (dynamic masking)."""

    def __init__(
        self,
        dataset: EncodedDataset,
        in_split: Bool[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        tokenizer: Tokenizer,
        masker: Masker,
        length: int,
    ) -> None:
        self._cls, self._sep = require_id(tokenizer.cls_id, "[CLS]"), require_id(tokenizer.sep_id, "[SEP]")
        self._masker = masker
        self._blocks = Blocks(dataset, length=length - 2, in_split=in_split)
        self._batches = rank_slice.batches(self._blocks.lengths + 2)

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the text."""

        def batch(numbers: Int[ndarray, " some"]) -> Batch:
            # A block carries one extra token, the target of its last one, which masking does not need.
            blocks = [self._blocks.block(number)[:-1] for number in numbers.tolist()]
            bert_inputs = BertInputs.of(blocks, cls_id=self._cls, sep_id=self._sep)
            return self._masker.batch(bert_inputs, numbers, epoch=epoch)

        return LazyBatches(self._batches.epoch(epoch), batch)


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


NEGATIVE_ATTEMPTS = 8


def draw_negatives(
    first: Int[ndarray, " pairs"], documents: Int[ndarray, " n"], *, seed: int, epoch: int, many_documents: bool
) -> Int[ndarray, " pairs"]:
    """Draw a sentence for each that does not follow it."""
    n = len(documents)
    # Fallback if all attempts fail: the sentence after the end of a document is in another one.
    after = np.searchsorted(documents, documents[first], side="right") if many_documents else first + 2
    drawn: Int[ndarray, " pairs"] = after % n
    found = np.zeros(len(first), dtype=np.bool_)
    for attempt in range(NEGATIVE_ATTEMPTS):
        draw = (random_bits(seed, epoch, NEGATIVE, attempt, first) % np.uint64(n)).astype(np.int64)
        valid = documents[draw] != documents[first] if many_documents else (draw != first) & (draw != first + 1)
        drawn = np.where(~found & valid, draw, drawn)
        found |= valid
    return drawn


class SentencePairBatchSource:
    """Masked sentence pairs, half of them consecutive: BERT's pre-training task (MLM and NSP).

    `documents` gives the document of each example: consecutive sentences come from one document.
    """

    def __init__(
        self,
        dataset: EncodedDataset,
        examples: Int[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        documents: Int[ndarray, " n"],
        tokenizer: Tokenizer,
        masker: Masker,
        length: int,
    ) -> None:
        self._dataset, self._examples, self._rank_slice, self._length = dataset, examples, rank_slice, length
        self._cls, self._sep = require_id(tokenizer.cls_id, "[CLS]"), require_id(tokenizer.sep_id, "[SEP]")
        self._masker = masker
        self._documents = documents

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the sentences, newly paired."""
        pairs = pair_sentences(self._documents, seed=self._rank_slice.seed, epoch=epoch)
        lengths = self._dataset.lengths[self._examples, 0]
        both = np.minimum(lengths[pairs.first] + lengths[pairs.second] + 3, self._length)

        def batch(numbers: Int[ndarray, " some"]) -> Batch:
            bert_inputs = BertInputs.of(
                self._dataset.sequences(self._examples[pairs.first[numbers]]),
                self._dataset.sequences(self._examples[pairs.second[numbers]]),
                cls_id=self._cls,
                sep_id=self._sep,
                max_length=self._length,
            )
            return self._masker.batch(bert_inputs, numbers, epoch=epoch, not_next=pairs.not_next[numbers])

        return LazyBatches(self._rank_slice.batches(both).epoch(epoch), batch)


class LabeledBatchSource:
    """Texts, or pairs of texts, with a class each (sequence classification)."""

    def __init__(
        self,
        dataset: EncodedDataset,
        examples: Int[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        tokenizer: Tokenizer,
        length: int,
    ) -> None:
        self._dataset, self._examples, self._length = dataset, examples, length
        self._cls, self._sep = require_id(tokenizer.cls_id, "[CLS]"), require_id(tokenizer.sep_id, "[SEP]")
        self._pad = require_id(tokenizer.pad_id, "padding")
        full = dataset.lengths[examples].sum(axis=1) + dataset.columns + 1
        self._batches = rank_slice.batches(np.minimum(full, length))

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> LabeledBatch:
        examples = self._examples[numbers]
        sides = [self._dataset.sequences(examples, column) for column in range(self._dataset.columns)]
        bert_inputs = BertInputs.of(*sides, cls_id=self._cls, sep_id=self._sep, max_length=self._length)
        return LabeledBatch.of(bert_inputs, self._dataset.labels[examples], pad_id=self._pad)


class TaggedBatchSource:
    """Texts with a class for each word (token classification)."""

    def __init__(
        self,
        dataset: EncodedDataset,
        examples: Int[ndarray, " n"],
        rank_slice: RankSlice,
        *,
        tokenizer: Tokenizer,
        length: int,
    ) -> None:
        self._dataset, self._examples, self._room = dataset, examples, length - 2
        self._cls, self._sep = require_id(tokenizer.cls_id, "[CLS]"), require_id(tokenizer.sep_id, "[SEP]")
        self._pad = require_id(tokenizer.pad_id, "padding")
        self._batches = rank_slice.batches(np.minimum(dataset.lengths[examples, 0] + 2, length))

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> TaggedBatch:
        examples = self._examples[numbers]
        texts, tags = (truncate(self._dataset.sequences(examples, column), self._room) for column in (0, 1))
        return TaggedBatch.of(texts, tags, pad_id=self._pad, cls_id=self._cls, sep_id=self._sep)


def truncate(rows: list[Shaped[ndarray, "..."]], length: int) -> list[Shaped[ndarray, "..."]]:
    """Truncate rows to a maximum length."""
    return [row[:length] for row in rows]


def require_id(id_: int | None, role: str) -> int:
    """Return the id of a special token, refusing a tokenizer without it."""
    if id_ is None:
        raise SettingsError(f"this tokenizer has no {role} token, which this task needs")
    return id_
