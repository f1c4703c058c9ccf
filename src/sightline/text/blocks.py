"""Running text as blocks of one length, for a language model: the documents one after another, cut every so often."""

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.errors import InputError
from sightline.text.store import Store


class Blocks:
    """The pieces of a store (or some of them) as one stream of ids, in blocks.

    Neighbouring blocks share a token, the last of one and the first of the next, so that every token but the very
    first is to be foreseen once. The last block may be shorter. With an `offset` the first block begins so many tokens
    later: another one in every epoch, and a token is not always foreseen from the same ones.
    """

    def __init__(
        self, store: Store, *, length: int, chosen: Bool[ndarray, " n"] | None = None, offset: int = 0
    ) -> None:
        if length < 1:
            raise InputError(f"a block needs at least 1 token, not {length}")
        self._store, self._length, self._offset = store, length, offset
        self._pieces = np.arange(len(store)) if chosen is None else np.flatnonzero(chosen)
        self._starts = np.concatenate([[0], np.cumsum(store.lengths[self._pieces, 0])])
        if self.n_ids < 2:
            raise InputError("there are not two tokens of text: nothing can be foreseen from anything")

    @property
    def n_ids(self) -> int:
        """Tokens of the stream."""
        return int(self._starts[-1]) - self._offset

    def __len__(self) -> int:
        return -(-(self.n_ids - 1) // self._length)

    @property
    def lengths(self) -> Int[ndarray, " blocks"]:
        """Tokens to be foreseen in each block."""
        lengths = np.full(len(self), self._length)
        lengths[-1] = self.n_ids - 1 - self._length * (len(self) - 1)
        return lengths

    def block(self, number: int) -> Int[ndarray, " length_and_one"]:
        """Return the ids of a block: what is read, and one more."""
        start = self._offset + number * self._length
        stop = min(start + self._length + 1, self._offset + self.n_ids)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        ids = np.concatenate(self._store.sequences(self._pieces[first:last]))
        return ids[start - int(self._starts[first]) : stop - int(self._starts[first])]
