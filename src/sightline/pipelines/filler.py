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
from sightline.pipelines.passages import passage
from sightline.pipelines.pipeline import Pipeline
from sightline.text.batch import MaskedBatch, real_tokens
from sightline.tracing import BertPass, Choice, Passage, Trace, Wishes, look

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

    def trace(self, text: str, **options: object) -> Trace:
        """Return what the model does while it fills the gaps of a text; `options` are those of `tracing.Wishes`.

        A text without a gap may be looked at, too: then nothing is decided.
        """
        wishes, _ = Wishes.of(options, writes=False)
        source = self.passage(text)
        self.check_lengths([source.tokens])
        ids = [token.id for token in source.tokens]
        with self.at_work():
            seen = look(
                BertPass(self.model, ids, head="masked_words"),
                wishes,
                [Choice(row) for row, id_ in enumerate(ids) if id_ == self.mask_id],
                name=self.tokenizer.token_text,
                forbidden=self.no_words,
            )
        return self.traced(seen, source)

    def passage(self, text: str) -> Passage:
        """Return a text as a trace shows it: what `row` gives, with the places of its tokens."""
        marks = [mark.span() for mark in self._mask.finditer(text)]
        starts, ends = [0, *(end for _, end in marks)], [*(start for start, _ in marks), len(text)]
        spans = [(0, 0)]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            part = text[start:end] if number == len(marks) else self.before_gap(text[start:end])
            spans += [(start + first, start + last) for first, last in self.tokenizer.spans(part)]
            spans += marks[number : number + 1]
        return passage(text, self.row(text), [*spans, (len(text), len(text))], self.tokenizer)

    @property
    def no_words(self) -> list[int]:
        """Ids that fill no gap: special tokens, and those without a token."""
        return sorted({*self.tokenizer.special_ids, *range(self.tokenizer.vocab_size, self.model.config.vocab_size)})

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
        allowed[self.no_words] = -math.inf
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
