"""Which examples go together into a batch, and in which order: a pure function of (seed, epoch, position).

Sentences of similar length go together (Vaswani et al. 2017, 5.1), as many as the token budget allows. The examples of
an epoch are shuffled and cut into windows; each window is sorted by length; all is cut into batches, and
these are shuffled. So the place in the data is three integers, and a resumed run goes on exactly where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from sightline.errors import InputError
from sightline.settings import Checks
from sightline.text.chance import order

EXAMPLES, BATCHES = 1, 2
"""Two independent shuffles."""


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How large a batch is."""

    batch_tokens: int = field(
        default=4_096, metadata={"help": "tokens of a batch, padding and both sides of a pair counted"}
    )
    batch_sentences: int = field(default=4_096, metadata={"help": "sentences of a batch, at most"})
    window: int = field(
        default=65_536,
        metadata={"help": "sentences sorted by length at once; more means less padding, 1 means no sorting"},
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 1 << 30, batch_tokens=self.batch_tokens, batch_sentences=self.batch_sentences)
        checks.between(1, 1 << 40, window=self.window)
        checks.done()


class Batches:
    """The batches of every epoch over examples of given lengths.

    With several processes each gets its share of every batch, every `world`-th sentence: all see the same number of
    batches, and together the same ones as a single process would. A share is empty where a batch has fewer sentences.
    """

    def __init__(
        self, lengths: Int[ndarray, "..."], settings: BatchSettings, *, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        if not 0 <= rank < world:
            raise InputError(f"rank must be between 0 and {world - 1}, not {rank}")
        self._lengths = (
            lengths.astype(np.int64)[:, None] if lengths.ndim == 1 else lengths.astype(np.int64)
        )  # n columns
        self._settings, self._seed, self._rank, self._world = settings, seed, rank, world
        sums = self._lengths.sum(axis=1)
        if len(sums) and (longest := int(sums.max())) > settings.batch_tokens:
            raise InputError(
                f"an example has {longest:,} tokens, a batch only {settings.batch_tokens:,}: raise batch_tokens, or "
                "lower data.max_length"
            )

    def epoch(self, epoch: int) -> "Epoch":
        """Return the batches of one pass over all examples."""
        n, window = len(self._lengths), self._settings.window
        shuffled = order(n, self._seed, epoch, EXAMPLES)
        first, last = self._lengths[shuffled, 0], self._lengths[shuffled, -1]
        # By the first side, then by the last, up and down in turn: so neither jumps from long to short in a batch.
        examples = shuffled[np.lexsort((np.where(first % 2, -last, last), first, np.arange(n) // window))]
        starts = self._cut(self._lengths[examples])
        places = order(len(starts) - 1, self._seed, epoch, BATCHES)
        return Epoch(examples, starts, places, self._lengths, self._rank, self._world)

    def _cut(self, lengths: Int[ndarray, "n columns"]) -> Int[ndarray, " batches_and_one"]:
        """Return where batches begin, and where the last one ends: each as large as the budget allows."""
        n, settings = len(lengths), self._settings
        sums = np.maximum(lengths.sum(axis=1), 1)
        starts = [0]
        while (start := starts[-1]) < n:
            # A batch is at least as wide as its first sentence, which says how many could fit at the very most.
            most = min(n, start + settings.batch_sentences, start + settings.batch_tokens // int(sums[start]))
            widths = np.maximum.accumulate(lengths[start:most], axis=0).sum(axis=1)
            sizes = widths * np.arange(1, len(widths) + 1)
            starts.append(start + int(np.searchsorted(sizes, settings.batch_tokens, side="right")))
        return np.array(starts, dtype=np.int64)


@dataclass(frozen=True)
class Epoch(Sequence[Int[ndarray, "..."]]):
    """The batches of one epoch, each as the numbers of its examples."""

    _examples: Int[ndarray, " n"]
    _starts: Int[ndarray, " batches_and_one"]
    _places: Int[ndarray, " batches"]
    _lengths: Int[ndarray, "n columns"]
    _rank: int
    _world: int

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, position: int) -> Int[ndarray, " sentences"]: ...
    @overload
    def __getitem__(self, position: slice) -> list[Int[ndarray, " sentences"]]: ...
    def __getitem__(self, position: int | slice) -> Int[ndarray, " sentences"] | list[Int[ndarray, " sentences"]]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        place = self._places[position]
        return self._examples[self._starts[place] : self._starts[place + 1]][self._rank :: self._world]

    @cached_property
    def sizes(self) -> Int[ndarray, " batches"]:
        """Tokens of every batch in its order, padding and the shares of other processes counted."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        widths = np.maximum.reduceat(self._lengths[self._examples], self._starts[:-1], axis=0).sum(axis=1)
        sizes: Int[ndarray, " batches"] = (widths * np.diff(self._starts))[self._places]
        return sizes

    @property
    def padding_share(self) -> float:
        """How much of the batches is padding."""
        return 1 - float(self._lengths.sum()) / max(1.0, float(self.sizes.sum())) if len(self) else 0.0
