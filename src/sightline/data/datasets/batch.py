"""Examples as tensors: rows of ids, padded on the right, with their lengths.

This is the only place where targets are shifted: a decoder reads start + target and must predict target + end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray
from torch import Tensor

SomeBatch = TypeVar("SomeBatch", bound="Batch")
Rows = Sequence[Int[ndarray, "..."]]


@dataclass(frozen=True)
class Batch:
    """The examples of one training step or one call of a model."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @property
    def n_ids(self) -> int:
        """Number of ids a model reads, counting padding."""
        read = (getattr(self, name, None) for name in ("source", "inputs"))
        return sum(grid.numel() for grid in read if grid is not None)

    @property
    def n_tokens(self) -> int:
        """Number of tokens the model learns from, without padding: of pairs, those of the targets."""
        lengths = getattr(self, "lengths", None)
        return len(self) if lengths is None else int(lengths.sum())

    def duplicate(self: SomeBatch) -> SomeBatch:
        """Return the batch followed by a second copy of all its examples."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(self, **{name: torch.cat([v, v]) for name, v in values.items() if v is not None})

    def to(self: SomeBatch, device: torch.device | str) -> SomeBatch:
        """Return the batch on a device."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if value is not None})


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sources and targets of a sequence-to-sequence model."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, "B"]
    inputs: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]

    @classmethod
    def of(
        cls, sources: Rows, targets: Rows, *, source_pad_id: int, pad_id: int, start_id: int, end_id: int
    ) -> "PairBatch":
        """Pad sources and targets; decoder inputs begin with the start token, targets finish with the end token."""
        source, source_lengths = pad(sources, pad_id=source_pad_id)
        inputs, lengths = pad([np.concatenate([[start_id], row]) for row in targets], pad_id=pad_id)
        outputs, _ = pad([np.concatenate([row, [end_id]]) for row in targets], pad_id=pad_id)
        return cls(source, source_lengths, inputs, outputs, lengths)


@dataclass(frozen=True)
class TextBatch(Batch):
    """Blocks of running text for next-token prediction."""

    inputs: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]

    @classmethod
    def of(cls, blocks: Rows, *, pad_id: int) -> "TextBatch":
        """Split blocks into inputs (all but the last token) and targets (all but the first)."""
        inputs, lengths = pad([block[:-1] for block in blocks], pad_id=pad_id)
        targets, _ = pad([block[1:] for block in blocks], pad_id=pad_id)
        return cls(inputs, targets, lengths)


@dataclass(frozen=True)
class BertInputs:
    """BERT inputs, [CLS] A [SEP] or [CLS] A [SEP] B [SEP], with the segment (0 or 1) of each token."""

    ids: list[Int[ndarray, "..."]]
    segments: list[Int[ndarray, "..."]]

    @classmethod
    def of(
        cls, first: Rows, second: Rows | None = None, *, cls_id: int, sep_id: int, max_length: int | None = None
    ) -> "BertInputs":
        """Add [CLS] and [SEP]; texts are truncated to `max_length`, the longer one of a pair first."""
        ids, segments = [], []
        for number, row in enumerate(first):
            other = None if second is None else second[number]
            row, other = truncate_pair(row, other, max_length)
            head = np.concatenate([[cls_id], row, [sep_id]])
            tail = np.zeros(0, dtype=np.int64) if other is None else np.concatenate([other, [sep_id]])
            ids.append(np.concatenate([head, tail]).astype(np.int64))
            segments.append(np.repeat(np.arange(2), [len(head), len(tail)]))
        return cls(ids, segments)


def truncate_pair(
    first: Int[ndarray, "..."], second: Int[ndarray, "..."] | None, max_length: int | None
) -> tuple[Int[ndarray, "..."], Int[ndarray, "..."] | None]:
    """Truncate texts so that they fit together with [CLS] and [SEP], the longer one first."""
    if max_length is None:
        return first, second
    if second is None:
        return first[: max_length - 2], None
    room = max(0, max_length - 3)
    for_first = min(len(first), max(room - room // 2, room - len(second)))
    return first[:for_first], second[: room - for_first]


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Texts, or pairs of texts, with masked tokens to predict."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    segments: Int[Tensor, "B T"]
    selected: Bool[Tensor, "B T"]
    """True where the original token is to be predicted."""
    targets: Int[Tensor, " selected"]
    """The original ids at those positions, row by row."""
    not_next: Int[Tensor, "B"] | None = None
    """Next-sentence label: 0 if the second text follows the first, 1 if not (as in BERT)."""


@dataclass(frozen=True)
class LabeledBatch(Batch):
    """Texts, or pairs of texts, with a class each (sequence classification)."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    segments: Int[Tensor, "B T"]
    labels: Int[Tensor, "B"]

    @classmethod
    def of(cls, bert_inputs: BertInputs, labels: Int[ndarray, " n"], *, pad_id: int) -> "LabeledBatch":
        """Pad the inputs."""
        inputs, lengths = pad(bert_inputs.ids, pad_id=pad_id)
        segments, _ = pad(bert_inputs.segments, pad_id=0)
        return cls(inputs, lengths, segments, torch.from_numpy(np.array(labels, dtype=np.int64)))


IGNORE_INDEX = -100
"""Marks positions of `TaggedBatch.labels` without a label, which are left out of the loss."""


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """Texts with a class for each word, at its first token (token classification)."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    labels: Int[Tensor, "B T"]

    @classmethod
    def of(cls, texts: Rows, tags: Rows, *, pad_id: int, cls_id: int, sep_id: int) -> "TaggedBatch":
        """Add [CLS] and [SEP] and pad; tags are label + 1, or 0 where there is none (as stored)."""
        inputs, lengths = pad([np.concatenate([[cls_id], row, [sep_id]]) for row in texts], pad_id=pad_id)
        tag_grid, _ = pad([np.concatenate([[0], row, [0]]) for row in tags], pad_id=0)
        return cls(inputs, lengths, torch.where(tag_grid > 0, tag_grid - 1, IGNORE_INDEX))


def pad(
    rows: Sequence[Sequence[int]] | Rows, *, pad_id: int = 0, device: torch.device | None = None
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Return rows of ids as one grid, padded on the right, and their lengths.

    To a model that is given the lengths the padding id does not matter: they mask it, and nothing attends to it.
    """
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    grid = np.full((len(rows), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    if len(rows):
        ids = np.concatenate(rows, dtype=np.int64, casting="unsafe")  # an empty list counts as floats
        grid[np.arange(grid.shape[1]) < lengths[:, None]] = ids
    return torch.from_numpy(grid).to(device), torch.from_numpy(lengths).to(device)


def token_mask(ids: Shaped[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B T"]:
    """Return a mask of the grid: True for tokens, False for padding."""
    return torch.arange(ids.size(1), device=ids.device) < lengths[:, None]


def join_rows(
    first: Int[Tensor, "B S"], first_lengths: Int[Tensor, "B"], second: Int[Tensor, "B T"], lengths: Int[Tensor, "B"]
) -> tuple[Int[Tensor, "B U"], Int[Tensor, "B"], Bool[Tensor, "N"]]:
    """Return rows followed by other rows as one grid, its lengths, and which of its N tokens are of the second."""
    both = first_lengths + lengths
    grid = first.new_zeros(len(first), int(both.max()) if len(both) else 0)
    in_second = torch.arange(grid.size(1), device=grid.device) >= first_lengths[:, None]
    real = token_mask(grid, both)
    grid[real & ~in_second] = first[token_mask(first, first_lengths)]
    grid[real & in_second] = second[token_mask(second, lengths)]
    return grid, both, in_second[real]
