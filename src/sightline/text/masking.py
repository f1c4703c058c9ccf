"""Hide words to be found again (Devlin et al. 2019, 3.1): of 15 % of the tokens, 80 % are masked, 10 % are replaced by
a random token and 10 % stay.

Which ones is a pure function of (seed, epoch, example): other ones in every epoch, the same ones after a resume, on
any rank and in any batch.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray

from sightline.errors import SettingsError
from sightline.settings import Checks
from sightline.text.batch import Framed, MaskedBatch, padded
from sightline.text.chance import bits, share
from sightline.text.tokenizer import Tokenizer

WHICH, HOW, WHAT = 5, 6, 7
"""Draws of their own."""


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """How much is hidden, and how."""

    chosen: float = field(default=0.15, metadata={"help": "share of the tokens to be found again"})
    masked: float = field(default=0.8, metadata={"help": "share of those that become the mask"})
    randomised: float = field(default=0.1, metadata={"help": "share of those that become a random token"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(0, 1, chosen=self.chosen, masked=self.masked, randomised=self.randomised)
        checks.that(self.masked + self.randomised <= 1, "masked and randomised together are more than 1")
        checks.done()


class Masker:
    """Hides tokens of framed texts; special tokens are never chosen and never put in."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskingSettings, *, seed: int) -> None:
        if tokenizer.mask_id is None or tokenizer.pad_id is None:
            raise SettingsError("this tokenizer has no mask or no padding token, which are needed to hide words")
        self._mask_id, self._pad_id = tokenizer.mask_id, tokenizer.pad_id
        self._settings, self._seed = settings, seed
        self._special = np.array(sorted(tokenizer.special_ids), dtype=np.int64)
        self._ordinary = ordinary_ids(tokenizer.vocab_size, tokenizer.special_ids)

    def batch(
        self,
        framed: Framed,
        examples: Int[ndarray, " B"],
        *,
        epoch: int,
        not_next: Bool[ndarray, " B"] | None = None,
    ) -> MaskedBatch:
        """Return a batch with some tokens hidden; `examples` number the texts within the epoch."""
        ids, lengths = padded(framed.ids, pad_id=self._pad_id)
        segments, _ = padded(framed.segments, pad_id=0)
        original = ids.numpy()
        chosen = self.chosen(original, examples, epoch=epoch)
        hidden = np.where(chosen, self.hidden(original, examples, epoch=epoch), original)
        return MaskedBatch(
            torch.from_numpy(hidden),
            lengths,
            segments,
            torch.from_numpy(chosen),
            torch.from_numpy(original[chosen]),
            None if not_next is None else torch.from_numpy(not_next.astype(np.int64)),
        )

    def chosen(self, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int) -> Bool[ndarray, "B T"]:
        """Choose the share of each text's tokens, at least one where there is one."""
        free = ~np.isin(ids, self._special)
        n_free = free.sum(axis=1, keepdims=True)
        wanted = np.where(n_free > 0, np.maximum(1, np.rint(self._settings.chosen * n_free)), 0)
        draws = np.where(free, self._draws(WHICH, ids, examples, epoch=epoch), np.iinfo(np.uint64).max)
        ranks = draws.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
        return free & (ranks < wanted)

    def hidden(self, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int) -> Int[ndarray, "B T"]:
        """Return what stands in the place of each token if it is chosen."""
        how = share(self._seed, epoch, HOW, *places(ids, examples))
        what = self._draws(WHAT, ids, examples, epoch=epoch) % np.uint64(len(self._ordinary))
        instead = np.where(how < self._settings.masked + self._settings.randomised, self._ordinary[what], ids)
        return np.where(how < self._settings.masked, self._mask_id, instead)

    def _draws(self, draw: int, ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"], *, epoch: int) -> ndarray:
        return bits(self._seed, epoch, draw, *places(ids, examples))


def places(ids: Int[ndarray, "B T"], examples: Int[ndarray, " B"]) -> Sequence[ndarray]:
    """Return the numbers that tell every token of every text from all others."""
    return examples[:, None], np.arange(ids.shape[1])[None, :]


def ordinary_ids(vocab_size: int, special_ids: Collection[int]) -> Int[ndarray, " n"]:
    """Return every id that is text."""
    return np.setdiff1d(np.arange(vocab_size), np.array(sorted(special_ids), dtype=np.int64))
