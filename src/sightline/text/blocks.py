"""Running text as blocks of fixed length, for a language model: all documents concatenated, then cut into blocks."""

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.encoded_dataset import EncodedDataset


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
