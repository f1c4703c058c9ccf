"""The examples of a run: training and validation set, and the tokenizers and labels they were encoded with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline.data.corpora.records import Labels
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.tokenizers.tokenizer import Tokenizer

SEQUENCES_PER_CHUNK = 100_000


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
        dataset = self.dataset
        wanted = np.repeat(self.selected, dataset.columns).reshape(-1, dataset.columns)
        wanted[:, columns:] = False
        seen = np.zeros(int(dataset.ids.max(initial=0)) + 1, dtype=np.bool_)
        for start in range(0, wanted.size, SEQUENCES_PER_CHUNK):  # in chunks: the ids may not fit into memory
            some = wanted.reshape(-1)[start : start + SEQUENCES_PER_CHUNK]
            bounds = dataset.bounds[start : start + len(some) + 1]
            seen[dataset.ids[bounds[0] : bounds[-1]][np.repeat(some, np.diff(bounds))]] = True
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
