"""Examples as tensors: rows of ids, padded on the right, with their lengths.

This is the only place where targets are shifted: a decoder reads start + target and must say target + end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray
from torch import Tensor

IGNORED = -100
"""Stands in `TaggedBatch.labels` where there is nothing to say."""

SomeBatch = TypeVar("SomeBatch", bound="Batch")
Rows = Sequence[Int[ndarray, "..."]]


@dataclass(frozen=True)
class Batch:
    """What one step of training, or one call of a model, is about."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @property
    def n_ids(self) -> int:
        """Ids a model reads for it, padding counted."""
        read = (getattr(self, name, None) for name in ("source", "inputs"))
        return sum(grid.numel() for grid in read if grid is not None)

    def twice(self: SomeBatch) -> SomeBatch:
        """Return the batch with every example in it a second time, behind all of the first."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(self, **{name: torch.cat([v, v]) for name, v in values.items() if v is not None})

    def to(self: SomeBatch, device: torch.device | str) -> SomeBatch:
        """Return the same batch on a device."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if value is not None})


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sources to read, and targets to write."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, "B"]
    inputs: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]

    @classmethod
    def of(
        cls, sources: Rows, targets: Rows, *, source_pad_id: int, pad_id: int, start_id: int, end_id: int
    ) -> "PairBatch":
        """Pad sources and targets; the latter go in behind the start and come out before the end."""
        source, source_lengths = padded(sources, pad_id=source_pad_id)
        inputs, lengths = padded([np.concatenate([[start_id], row]) for row in targets], pad_id=pad_id)
        outputs, _ = padded([np.concatenate([row, [end_id]]) for row in targets], pad_id=pad_id)
        return cls(source, source_lengths, inputs, outputs, lengths)


@dataclass(frozen=True)
class TextBatch(Batch):
    """Blocks of running text, every token of which is to be foreseen from those before it."""

    inputs: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]

    @classmethod
    def of(cls, blocks: Rows, *, pad_id: int) -> "TextBatch":
        """Read all of a block but its last token; say all but its first."""
        inputs, lengths = padded([block[:-1] for block in blocks], pad_id=pad_id)
        targets, _ = padded([block[1:] for block in blocks], pad_id=pad_id)
        return cls(inputs, targets, lengths)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Texts, or pairs of texts, some tokens of which are hidden and to be found again."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    segments: Int[Tensor, "B T"]
    chosen: Bool[Tensor, "B T"]
    """Where something is to be found again."""
    targets: Int[Tensor, " chosen"]
    """What stood there, row by row."""
    not_next: Int[Tensor, "B"] | None = None
    """0 where the second text follows the first, 1 where it does not (the order of BERT's head)."""


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Texts, or pairs of texts, with the class of each."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    segments: Int[Tensor, "B T"]
    labels: Int[Tensor, "B"]

    @classmethod
    def of(cls, framed: "Framed", labels: Int[ndarray, " n"], *, pad_id: int) -> "LabelledBatch":
        """Pad framed texts."""
        inputs, lengths = padded(framed.ids, pad_id=pad_id)
        segments, _ = padded(framed.segments, pad_id=0)
        return cls(inputs, lengths, segments, torch.from_numpy(np.array(labels, dtype=np.int64)))


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """Texts with a class for each word, at its first token."""

    inputs: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    labels: Int[Tensor, "B T"]

    @classmethod
    def of(cls, texts: Rows, tags: Rows, *, pad_id: int, cls_id: int, sep_id: int) -> "TaggedBatch":
        """Frame and pad texts; tags are one more than a label, 0 where there is none (as stored)."""
        inputs, lengths = padded([np.concatenate([[cls_id], row, [sep_id]]) for row in texts], pad_id=pad_id)
        raised, _ = padded([np.concatenate([[0], row, [0]]) for row in tags], pad_id=0)
        return cls(inputs, lengths, torch.where(raised > 0, raised - 1, IGNORED))


@dataclass(frozen=True)
class Framed:
    """Texts between BERT's marks, [CLS] A [SEP] or [CLS] A [SEP] B [SEP], and which text each token belongs to."""

    ids: list[Int[ndarray, "..."]]
    segments: list[Int[ndarray, "..."]]

    @classmethod
    def of(
        cls, first: Rows, second: Rows | None = None, *, cls_id: int, sep_id: int, max_length: int | None = None
    ) -> "Framed":
        """Frame texts; where a model can take no more, the longer text of a pair is cut first."""
        ids, segments = [], []
        for number, row in enumerate(first):
            other = None if second is None else second[number]
            row, other = cut_to(row, other, max_length)
            one = np.concatenate([[cls_id], row, [sep_id]])
            two = np.zeros(0, dtype=np.int64) if other is None else np.concatenate([other, [sep_id]])
            ids.append(np.concatenate([one, two]).astype(np.int64))
            segments.append(np.repeat(np.arange(2), [len(one), len(two)]))
        return cls(ids, segments)


def cut_to(
    first: Int[ndarray, "..."], second: Int[ndarray, "..."] | None, max_length: int | None
) -> tuple[Int[ndarray, "..."], Int[ndarray, "..."] | None]:
    """Cut texts so that they fit with their frame, the longer one first."""
    if max_length is None:
        return first, second
    if second is None:
        return first[: max_length - 2], None
    room = max(0, max_length - 3)
    for_first = min(len(first), max(room - room // 2, room - len(second)))
    return first[:for_first], second[: room - for_first]


def padded(rows: Rows, *, pad_id: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Return rows of ids as one grid, padded on the right, and their lengths."""
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    grid = np.full((len(rows), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    if len(rows):
        grid[np.arange(grid.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(grid), torch.from_numpy(lengths)


def real_tokens(ids: Shaped[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B T"]:
    """Say which places of a grid hold a token, and not padding."""
    return torch.arange(ids.size(1), device=ids.device) < lengths[:, None]
