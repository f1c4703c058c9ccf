"""Length-bucketed batching: which examples form a batch, and the order of the batches.

A pure function of (seed, epoch, position). Sequences of similar length are batched together (Vaswani et al. 2017, 5.1),
as many as the token budget allows. The examples of an epoch are shuffled and cut into windows; each window is sorted by
length; all are cut into batches, and the batches are shuffled. So the position in the data is three integers, and a
resumed run continues exactly where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from sightline.config import Checks
from sightline.data.datasets.stateless_random import permutation
from sightline.errors import InputError

EXAMPLES, BATCHES = 1, 2
"""Independent random streams, one per shuffle; 3 to 8 belong to batch sources and masking."""


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """Batch size."""

    batch_tokens: int = field(
        default=4_096, metadata={"help": "batch size in tokens, counting padding and both sides of a pair"}
    )
    batch_sentences: int = field(default=4_096, metadata={"help": "maximum batch size in sentences"})
    bucket_window: int = field(
        default=65_536,
        metadata={"help": "length bucketing: sentences sorted by length at once; larger: less padding, 1: no sorting"},
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 1 << 30, batch_tokens=self.batch_tokens, batch_sentences=self.batch_sentences)
        checks.between(1, 1 << 40, bucket_window=self.bucket_window)
        checks.done()


class Batches:
    """The batches of every epoch over examples of given lengths.

    With several processes each rank gets a slice of every batch, every `world_size`-th sentence: all see the same
    number of batches, and together the same ones as a single process would. A slice is empty where a batch has too few
    sentences.
    """

    def __init__(
        self, lengths: Int[ndarray, "..."], settings: BatchSettings, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        if not 0 <= rank < world_size:
            raise InputError(f"rank must be between 0 and {world_size - 1}, not {rank}")
        self._lengths = (
            lengths.astype(np.int64)[:, None] if lengths.ndim == 1 else lengths.astype(np.int64)
        )  # n columns
        self._settings, self._seed, self._rank, self._world_size = settings, seed, rank, world_size
        sums = self._lengths.sum(axis=1)
        if len(sums) and (longest := int(sums.max())) > settings.batch_tokens:
            raise InputError(
                f"an example has {longest:,} tokens, a batch only {settings.batch_tokens:,}: raise batch_tokens or "
                "lower data.max_length"
            )

    def epoch(self, epoch: int) -> "Epoch":
        """Return the batches of one pass over all examples."""
        n, window = len(self._lengths), self._settings.bucket_window
        shuffled = permutation(n, self._seed, epoch, EXAMPLES)
        first, last = self._lengths[shuffled, 0], self._lengths[shuffled, -1]
        # By source length, then by target length, alternately up and down, so that neither drops from long to short.
        examples = shuffled[np.lexsort((np.where(first % 2, -last, last), first, np.arange(n) // window))]
        starts = self._cut(self._lengths[examples])
        batch_order = permutation(len(starts) - 1, self._seed, epoch, BATCHES)
        return Epoch(examples, starts, batch_order, self._lengths, self._rank, self._world_size)

    def _cut(self, lengths: Int[ndarray, "n columns"]) -> Int[ndarray, " batches_and_one"]:
        """Return where each batch starts, and where the last one ends: each as large as the budget allows."""
        n, settings = len(lengths), self._settings
        sums = np.maximum(lengths.sum(axis=1), 1)
        starts = [0]
        while (start := starts[-1]) < n:
            # A batch is at least as wide as its first sentence, which bounds how many can fit.
            stop = min(n, start + settings.batch_sentences, start + settings.batch_tokens // int(sums[start]))
            widths = np.maximum.accumulate(lengths[start:stop], axis=0).sum(axis=1)
            sizes = widths * np.arange(1, len(widths) + 1)
            starts.append(start + int(np.searchsorted(sizes, settings.batch_tokens, side="right")))
        return np.array(starts, dtype=np.int64)


@dataclass(frozen=True)
class Epoch(Sequence[Int[ndarray, "..."]]):
    """The batches of one epoch, each as the indices of its examples."""

    _examples: Int[ndarray, " n"]
    _starts: Int[ndarray, " batches_and_one"]
    _batch_order: Int[ndarray, " batches"]
    _lengths: Int[ndarray, "n columns"]
    _rank: int
    _world_size: int

    def __len__(self) -> int:
        return len(self._batch_order)

    @overload
    def __getitem__(self, position: int) -> Int[ndarray, " sentences"]: ...
    @overload
    def __getitem__(self, position: slice) -> list[Int[ndarray, " sentences"]]: ...
    def __getitem__(self, position: int | slice) -> Int[ndarray, " sentences"] | list[Int[ndarray, " sentences"]]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        batch = self._batch_order[position]
        return self._examples[self._starts[batch] : self._starts[batch + 1]][self._rank :: self._world_size]

    @cached_property
    def sizes(self) -> Int[ndarray, " batches"]:
        """Tokens of every batch in order, counting padding and the slices of other ranks."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        widths = np.maximum.reduceat(self._lengths[self._examples], self._starts[:-1], axis=0).sum(axis=1)
        sizes: Int[ndarray, " batches"] = (widths * np.diff(self._starts))[self._batch_order]
        return sizes

    @property
    def padding_share(self) -> float:
        """Fraction of the batches that is padding."""
        return 1 - float(self._lengths.sum()) / max(1.0, float(self.sizes.sum())) if len(self) else 0.0
