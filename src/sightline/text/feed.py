"""What a run reads: the batches of every epoch, made when they are asked for.

One class for each kind of example. What `epoch(k)[position]` is depends on the seed, k and the position alone, so a run
that goes on from a checkpoint reads exactly what it would have read. Knows no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, overload, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray

from sightline.errors import SettingsError
from sightline.text.batch import Batch, Framed, LabelledBatch, PairBatch, TaggedBatch, TextBatch
from sightline.text.batching import Batches, BatchSettings, Epoch
from sightline.text.blocks import Blocks
from sightline.text.chance import bits
from sightline.text.masking import Masker
from sightline.text.sentences import sentence_pairs
from sightline.text.store import Store
from sightline.text.tokenizer import Tokenizer

OFFSET = 8
"""A draw of its own; 1 to 7 are those of batching, sentence pairs and masking."""


@dataclass(frozen=True)
class Share:
    """Which part of every batch is ours, how large batches are, and the seed of their order."""

    settings: BatchSettings
    seed: int
    rank: int = 0
    world: int = 1

    def batches(self, lengths: Int[ndarray, "..."]) -> Batches:
        """Group examples of these lengths."""
        return Batches(lengths, self.settings, seed=self.seed, rank=self.rank, world=self.world)


class LazyBatches(Sequence[Batch]):
    """The batches of one epoch; each is made when it is asked for."""

    def __init__(self, epoch: Epoch, make: Callable[[Int[ndarray, " some"]], Batch]) -> None:
        self._epoch, self._make = epoch, make

    def __len__(self) -> int:
        return len(self._epoch)

    @overload
    def __getitem__(self, position: int) -> Batch: ...
    @overload
    def __getitem__(self, position: slice) -> list[Batch]: ...
    def __getitem__(self, position: int | slice) -> Batch | list[Batch]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        return self._make(self._epoch[position])

    @property
    def sizes(self) -> Int[ndarray, " batches"]:
        """Tokens of every batch, padding counted."""
        return self._epoch.sizes

    @property
    def padding_share(self) -> float:
        """How much of the batches is padding."""
        return self._epoch.padding_share


@runtime_checkable
class Feed(Protocol):
    """Batches without end, an epoch at a time."""

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        ...


class PairFeed:
    """Sources with the targets to write."""

    def __init__(
        self,
        store: Store,
        examples: Int[ndarray, " n"],
        share: Share,
        *,
        source: Tokenizer,
        target: Tokenizer,
    ) -> None:
        self._store, self._examples = store, examples
        self._source_pad = required(source.pad_id, "padding")
        self._pad, self._start = required(target.pad_id, "padding"), required(target.start_id, "start")
        self._end = required(target.end_id, "end")
        self._batches = share.batches(store.lengths[examples] + np.array([0, 1]))  # a target is read behind its start

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> PairBatch:
        examples = self._examples[numbers]
        return PairBatch.of(
            self._store.sequences(examples, 0),
            self._store.sequences(examples, 1),
            source_pad_id=self._source_pad,
            pad_id=self._pad,
            start_id=self._start,
            end_id=self._end,
        )


class TextFeed:
    """Running text in blocks, cut at other places in every epoch if `shifted`."""

    def __init__(
        self,
        store: Store,
        chosen: Bool[ndarray, " n"],
        share: Share,
        *,
        tokenizer: Tokenizer,
        length: int,
        shifted: bool = True,
    ) -> None:
        self._store, self._chosen, self._share, self._length, self._shifted = store, chosen, share, length, shifted
        self._pad = required(tokenizer.pad_id, "padding")

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the text."""
        blocks = self._blocks(epoch)
        return LazyBatches(
            self._share.batches(blocks.lengths).epoch(epoch),
            lambda numbers: TextBatch.of([blocks.block(number) for number in numbers.tolist()], pad_id=self._pad),
        )

    def _blocks(self, epoch: int) -> Blocks:
        blocks = Blocks(self._store, length=self._length, chosen=self._chosen)
        if not self._shifted:
            return blocks
        offset = int(bits(self._share.seed, epoch, OFFSET)[0] % np.uint64(min(self._length, blocks.n_ids // 2)))
        return Blocks(self._store, length=self._length, chosen=self._chosen, offset=offset)


class MaskedFeed:
    """Running text in framed blocks, other words of it hidden in every epoch (dynamic masking)."""

    def __init__(
        self,
        store: Store,
        chosen: Bool[ndarray, " n"],
        share: Share,
        *,
        tokenizer: Tokenizer,
        masker: Masker,
        length: int,
    ) -> None:
        self._cls, self._sep = required(tokenizer.cls_id, "[CLS]"), required(tokenizer.sep_id, "[SEP]")
        self._masker = masker
        self._blocks = Blocks(store, length=length - 2, chosen=chosen)
        self._batches = share.batches(self._blocks.lengths + 2)

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the text."""

        def batch(numbers: Int[ndarray, " some"]) -> Batch:
            # A block of running text brings one token of the next along, which nothing foresees here.
            blocks = [self._blocks.block(number)[:-1] for number in numbers.tolist()]
            framed = Framed.of(blocks, cls_id=self._cls, sep_id=self._sep)
            return self._masker.batch(framed, numbers, epoch=epoch)

        return LazyBatches(self._batches.epoch(epoch), batch)


class SentencePairFeed:
    """Pairs of sentences, half of which do not follow each other, with words hidden: BERT's own task.

    `documents` says where each of the examples belongs: only within a document does one sentence follow another.
    """

    def __init__(
        self,
        store: Store,
        examples: Int[ndarray, " n"],
        share: Share,
        *,
        documents: Int[ndarray, " n"],
        tokenizer: Tokenizer,
        masker: Masker,
        length: int,
    ) -> None:
        self._store, self._examples, self._share, self._length = store, examples, share, length
        self._cls, self._sep = required(tokenizer.cls_id, "[CLS]"), required(tokenizer.sep_id, "[SEP]")
        self._masker = masker
        self._documents = documents

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the sentences, paired anew."""
        pairs = sentence_pairs(self._documents, seed=self._share.seed, epoch=epoch)
        lengths = self._store.lengths[self._examples, 0]
        both = np.minimum(lengths[pairs.first] + lengths[pairs.second] + 3, self._length)

        def batch(numbers: Int[ndarray, " some"]) -> Batch:
            framed = Framed.of(
                self._store.sequences(self._examples[pairs.first[numbers]]),
                self._store.sequences(self._examples[pairs.second[numbers]]),
                cls_id=self._cls,
                sep_id=self._sep,
                max_length=self._length,
            )
            return self._masker.batch(framed, numbers, epoch=epoch, not_next=pairs.not_next[numbers])

        return LazyBatches(self._share.batches(both).epoch(epoch), batch)


class LabelledFeed:
    """Texts, or pairs of texts, with a class each."""

    def __init__(
        self, store: Store, examples: Int[ndarray, " n"], share: Share, *, tokenizer: Tokenizer, length: int
    ) -> None:
        self._store, self._examples, self._length = store, examples, length
        self._cls, self._sep = required(tokenizer.cls_id, "[CLS]"), required(tokenizer.sep_id, "[SEP]")
        self._pad = required(tokenizer.pad_id, "padding")
        whole = store.lengths[examples].sum(axis=1) + store.columns + 1
        self._batches = share.batches(np.minimum(whole, length))

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> LabelledBatch:
        examples = self._examples[numbers]
        sides = [self._store.sequences(examples, column) for column in range(self._store.columns)]
        framed = Framed.of(*sides, cls_id=self._cls, sep_id=self._sep, max_length=self._length)
        return LabelledBatch.of(framed, self._store.labels[examples], pad_id=self._pad)


class TaggedFeed:
    """Texts with a class for each word."""

    def __init__(
        self, store: Store, examples: Int[ndarray, " n"], share: Share, *, tokenizer: Tokenizer, length: int
    ) -> None:
        self._store, self._examples, self._room = store, examples, length - 2
        self._cls, self._sep = required(tokenizer.cls_id, "[CLS]"), required(tokenizer.sep_id, "[SEP]")
        self._pad = required(tokenizer.pad_id, "padding")
        self._batches = share.batches(np.minimum(store.lengths[examples, 0] + 2, length))

    def epoch(self, epoch: int) -> LazyBatches:
        """Return the batches of one pass over the examples."""
        return LazyBatches(self._batches.epoch(epoch), self._batch)

    def _batch(self, numbers: Int[ndarray, " some"]) -> TaggedBatch:
        examples = self._examples[numbers]
        texts, tags = (cut(self._store.sequences(examples, column), self._room) for column in (0, 1))
        return TaggedBatch.of(texts, tags, pad_id=self._pad, cls_id=self._cls, sep_id=self._sep)


def cut(rows: list[Shaped[ndarray, "..."]], length: int) -> list[Shaped[ndarray, "..."]]:
    """Cut rows to what a model can take."""
    return [row[:length] for row in rows]


def required(id_: int | None, role: str) -> int:
    """Return the id of a special token that must be there."""
    if id_ is None:
        raise SettingsError(f"this tokenizer has no {role} token, which this task needs")
    return id_
