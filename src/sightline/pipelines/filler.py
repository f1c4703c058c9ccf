"""Fill in: a text with gaps in, the words that fit out."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxtyping import Bool, Float
from torch import Tensor

from sightline.bundle import Bundle
from sightline.errors import InputError
from sightline.model import Bert
from sightline.pipelines.batches import BATCH_TOKENS
from sightline.pipelines.pipeline import Pipeline
from sightline.text.batch import MaskedBatch, real_tokens

MASK = "[MASK]"
"""What a person types where a word is missing, whatever the tokenizer calls it."""


@dataclass(frozen=True)
class Candidate:
    """A word that may stand in a gap."""

    text: str
    """The whole text with this word in the gap; other gaps stay."""
    token: str
    probability: float


@dataclass(frozen=True)
class Filling:
    """What fits into one gap, likeliest first."""

    candidates: list[Candidate]


@dataclass(frozen=True)
class Gap:
    """What stands before and after one gap of a text."""

    before: str
    after: str


class Filler(Pipeline):
    """Finds words for the gaps of a text. Here, and only here, "[MASK]" typed by a person is the mask."""

    takes = (Bert,)
    model: Bert

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.mask_id = self.role_id("mask")
        names = sorted({MASK, self.tokenizer.roles["mask"]})
        self._mask = re.compile("|".join(map(re.escape, names)))

    def fill(self, text: str, *, n: int = 5) -> list[Filling]:
        """Return the n likeliest words for each gap of a text, every gap by itself."""
        return self.fillings([text], n=n)[0]

    def fillings(self, texts: Sequence[str], *, n: int = 5, batch_tokens: int = BATCH_TOKENS) -> list[list[Filling]]:
        """Return what `fill` does for each text."""
        for number, text in enumerate(texts, start=1):
            if not self._mask.search(text):
                which = f"text {number}" if len(texts) > 1 else "the text"
                raise InputError(f"{which} has no gap: put {MASK} where a word is missing")
        rows = [self.row(text) for text in texts]
        self.check_lengths(rows)
        results: list[list[Filling]] = [[] for _ in texts]
        with self.at_work():
            for chosen, ids, lengths in self.in_batches(rows, batch_tokens=batch_tokens):
                masked = ids[real_tokens(ids, lengths)] == self.mask_id
                hidden = self.model(ids, lengths=lengths, packed=True)[masked]
                scores = self.model.masked_words(hidden).float().softmax(dim=1).cpu()
                gaps = [(number, gap) for number in chosen for gap in self.gaps(texts[number])]
                for (number, gap), probabilities in zip(gaps, scores, strict=True):
                    results[number].append(self.filling(gap, probabilities, n=n))
        return results

    def find_again(self, batch: MaskedBatch) -> tuple[Float[Tensor, "M"], Bool[Tensor, "M"]]:
        """Return the log-probability of every word that a batch hides, and whether none is likelier."""
        batch = batch.to(self.weight.device)
        with self.at_work():
            hidden = self.model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
            chosen = batch.chosen[real_tokens(batch.inputs, batch.lengths)]
            likely = self.model.masked_words(hidden[chosen]).float().log_softmax(dim=1)
            return likely.gather(1, batch.targets[:, None])[:, 0].cpu(), (likely.argmax(dim=1) == batch.targets).cpu()

    def row(self, text: str) -> list[int]:
        """Return the ids of a text, framed, with the mask in its gaps."""
        *parts, last = self._mask.split(text)
        first, *others = self.tokenizer.encode_batch([*map(self.before_gap, parts), last])
        before, after = self.frame()
        return [*before, *first, *(id_ for part in others for id_ in (self.mask_id, *part)), *after]

    def gaps(self, text: str) -> list[Gap]:
        """Return what stands around each gap."""
        marks = self._mask.finditer(text)
        return [Gap(self.before_gap(text[: mark.start()]), text[mark.end() :]) for mark in marks]

    def before_gap(self, text: str) -> str:
        """Return what stands before a gap: where words bring their blank along, that is the gap's."""
        return text.removesuffix(" ") if self.blanks_join_words else text

    def filling(self, gap: Gap, probabilities: Float[Tensor, "V"], *, n: int) -> Filling:
        """Return the likeliest words of a gap; special tokens, and ids without a token, are no words."""
        allowed = probabilities.clone()
        allowed[self.tokenizer.vocab_size :] = -math.inf
        allowed[sorted(self.tokenizer.special_ids)] = -math.inf
        values, ids = allowed.sort(descending=True, stable=True)
        best = ids[values > -math.inf][: max(n, 0)].tolist()
        return Filling([self.candidate(gap, id_, float(probabilities[id_])) for id_ in best])

    def candidate(self, gap: Gap, id_: int, probability: float) -> Candidate:
        """Return a word in its place."""
        word, shown = self.tokenizer.decode([id_]), self.tokenizer.token_text(id_)
        text = gap.before + (word if gap.before else word.lstrip(" ")) + gap.after
        return Candidate(text, shown.strip() or shown, probability)

    @cached_property
    def blanks_join_words(self) -> bool:
        """Whether the tokens of words have the blank before them in them."""
        texts = (self.tokenizer.token_text(id_) for id_ in range(self.tokenizer.vocab_size))
        return any(len(text) > 1 and text[0] in " ▁" and text[1].isalpha() for text in texts)
