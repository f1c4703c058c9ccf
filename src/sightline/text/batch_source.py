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

from sightline.errors import SettingsError
from sightline.text.batch import Batch, BertInputs, LabeledBatch, PairBatch, TaggedBatch, TextBatch
from sightline.text.batching import Batches, BatchSettings, Epoch
from sightline.text.blocks import Blocks
from sightline.text.encoded_dataset import EncodedDataset
from sightline.text.masking import Masker
from sightline.text.sentences import pair_sentences
from sightline.text.stateless_random import random_bits
from sightline.text.tokenizer import Tokenizer

OFFSET = 8
"""An independent random stream; 1 to 7 belong to batching, sentence pairs and masking."""


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
        self._batches = rank_slice.batches(
            dataset.lengths[examples] + np.array([0, 1])
        )  # targets are read after the start token

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
        self._dataset, self._in_split, self._rank_slice, self._length, self._random_offset = (
            dataset,
            in_split,
            rank_slice,
            length,
            random_offset,
        )
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
