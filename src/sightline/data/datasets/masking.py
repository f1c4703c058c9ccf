"""Dynamic masking for masked language modeling (Devlin et al. 2019, 3.1).

Of the selected 15 % of tokens, 80 % become the mask token, 10 % a random token, and 10 % stay. The selection is a pure
function of (seed, epoch, example): different in every epoch, the same after a resume, on any rank and in any batch.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.config import Checks
from sightline.data.datasets.batch import BertInputs, MaskedBatch, pad
from sightline.data.datasets.stateless_random import random_bits, uniform
from sightline.data.tokenizers.tokenizer import Tokenizer
from sightline.errors import SettingsError

SELECTION, ACTION, RANDOM_TOKEN = 5, 6, 7
"""Independent random streams; 1 and 2 belong to batching, 3, 4 and 8 to batch sources."""


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """How many tokens are masked, and how."""

    mask_rate: float = field(default=0.15, metadata={"help": "mask rate: share of tokens selected for prediction"})
    mask_prob: float = field(
        default=0.8, metadata={"help": "mask probability: share of selected tokens replaced by the mask token"}
    )
    random_prob: float = field(
        default=0.1, metadata={"help": "random-token probability: share of selected tokens replaced by a random token"}
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(0, 1, mask_rate=self.mask_rate, mask_prob=self.mask_prob, random_prob=self.random_prob)
        checks.that(self.mask_prob + self.random_prob <= 1, "mask_prob and random_prob add up to more than 1")
        checks.done()


class Masker:
    """Masks tokens of BERT inputs; special tokens are never selected and never drawn as replacements."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskingSettings, *, seed: int) -> None:
        if tokenizer.mask_id is None or tokenizer.pad_id is None:
            raise SettingsError("this tokenizer has no mask or no padding token, which masking needs")
        self._mask_id, self._pad_id = tokenizer.mask_id, tokenizer.pad_id
        self._settings, self._seed = settings, seed
        self._special = np.array(sorted(tokenizer.special_ids), dtype=np.int64)
        self._ordinary = ordinary_ids(tokenizer.vocab_size, tokenizer.special_ids)

    def batch(
        self,
        bert_inputs: BertInputs,
        examples: Int[ndarray, " B"],
        *,
        epoch: int,
        not_next: Bool[ndarray, " B"] | None = None,
    ) -> MaskedBatch:
        """Return a masked batch; `examples` are the indices of the texts within the epoch."""
        ids, lengths = pad(bert_inputs.ids, pad_id=self._pad_id)
        segments, _ = pad(bert_inputs.segments, pad_id=0)
        original = ids.numpy()
        selected = self.select(original, examples, epoch=epoch)
        masked = np.where(selected, self.draw_replacements(original, examples, epoch=epoch), original)
        return MaskedBatch(
            torch.from_numpy(masked),
            lengths,
            segments,
            torch.from_numpy(selected),
            torch.from_numpy(original[selected]),
            None if not_next is None else torch.from_numpy(not_next.astype(np.int64)),
        )

    def select(self, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int) -> Bool[ndarray, "B T"]:
        """Select `mask_rate` of each text's tokens, at least one if there is any."""
        maskable = ~np.isin(ids, self._special)
        n_maskable = maskable.sum(axis=1, keepdims=True)
        n_selected = np.where(n_maskable > 0, np.maximum(1, np.rint(self._settings.mask_rate * n_maskable)), 0)
        draws = np.where(maskable, self._draws(SELECTION, ids, examples, epoch=epoch), np.iinfo(np.uint64).max)
        ranks = draws.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return maskable & (ranks < n_selected)

    def draw_replacements(
        self, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int
    ) -> Int[ndarray, "B T"]:
        """Draw the replacement of each token, used where it is selected."""
        action = uniform(self._seed, epoch, ACTION, *coordinates(ids, examples))
        index = self._draws(RANDOM_TOKEN, ids, examples, epoch=epoch) % np.uint64(len(self._ordinary))
        unmasked = np.where(action < self._settings.mask_prob + self._settings.random_prob, self._ordinary[index], ids)
        return np.where(action < self._settings.mask_prob, self._mask_id, unmasked)

    def _draws(self, stream: int, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int) -> ndarray:
        return random_bits(self._seed, epoch, stream, *coordinates(ids, examples))


def coordinates(ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"]) -> Sequence[ndarray]:
    """Return the example and position of every token, which identify it within the epoch."""
    return examples[:, None], np.arange(ids.shape[1])[None, :]


def ordinary_ids(vocab_size: int, special_ids: Collection[int]) -> Int[ndarray, " n"]:
    """Return every id that is not a special token."""
    return np.setdiff1d(np.arange(vocab_size), np.array(sorted(special_ids), dtype=np.int64))
