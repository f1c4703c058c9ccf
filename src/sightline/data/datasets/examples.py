"""The examples of a run: training and validation set, and the tokenizers and labels they were encoded with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline.data.corpora.records import Labels
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.data.tokenizers.tokenizer import Tokenizer


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


@dataclass(frozen=True)
class Examples:
    """Training and validation set, and what they were read and encoded with."""

    data: DataSettings
    tokenizers: Tokenizers
    labels: Labels | None
    train: Split
    valid: Split
