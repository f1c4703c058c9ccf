"""The examples of a run: training and validation set, and the tokenizers and labels they were encoded with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline.data.corpora.records import Labels
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.tokenizers.tokenizer import Tokenizer

TOKENS_PER_CHUNK = 1 << 20


@dataclass(frozen=True)
class Tokenizers:
    """Source and target tokenizer of a run, and the words of its corpus."""

    source: Tokenizer
    target: Tokenizer | None = None
    """None if source and target share one."""
    words: tuple[str, ...] = ()

    @property
    def output(self) -> Tokenizer:
        """The tokenizer of the model's output."""
        return self.target or self.source


@dataclass(frozen=True)
class DatasetSize:
    """Size of the training set."""

    n_examples: int
    n_tokens: int
    """Of sources and targets."""
    max_length: int
    """Tokens of the longest example, source and target; 0 for running text."""


@dataclass(frozen=True)
class Split:
    """The training or the validation set: the selected examples of a dataset."""

    dataset: EncodedDataset
    selected: Bool[ndarray, " n"]

    @classmethod
    def all_of(cls, dataset: EncodedDataset) -> "Split":
        """Return the split that holds every example."""
        return cls(dataset, np.ones(len(dataset), dtype=np.bool_))

    def measure(self, *, running_text: bool) -> DatasetSize:
        """Count examples and tokens; running text is cut into blocks, so its examples have no length of their own."""
        lengths = self.dataset.lengths[self.selected]
        longest = 0 if running_text else int(lengths.sum(axis=1).max(initial=0))
        return DatasetSize(len(lengths), int(lengths.sum()), longest)

    def find_ids(self, *, columns: int = 1) -> list[int]:
        """Return all ids that occur in the first columns of the selected examples."""
        dataset, bounds = self.dataset, self.dataset.bounds
        wanted = np.outer(self.selected, np.arange(dataset.columns) < columns).reshape(-1)
        seen = np.zeros(int(dataset.ids.max(initial=0)) + 1, dtype=np.bool_)
        for start in range(0, len(dataset.ids), TOKENS_PER_CHUNK):  # in chunks: the ids may not fit into memory
            ids = dataset.ids[start : start + TOKENS_PER_CHUNK]
            first, last = np.searchsorted(bounds, (start, start + len(ids)), side="left")
            first -= bounds[first] > start
            lengths = np.diff(np.clip(bounds[first : last + 1], start, start + len(ids)))
            seen[ids[np.repeat(wanted[first:last], lengths)]] = True
        found: list[int] = np.flatnonzero(seen).tolist()
        return found


@dataclass(frozen=True)
class Examples:
    """Training and validation set, and what they were read and encoded with."""

    data: DataSettings
    tokenizers: Tokenizers
    labels: Labels | None
    train: Split
    valid: Split
