"""Fill-mask: a text with [MASK] in, the words that fit out."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxtyping import Bool, Float
from torch import Tensor

from sightline.bundle import Bundle
from sightline.data.datasets.batch import MaskedBatch, token_mask
from sightline.errors import InputError
from sightline.model import TextEncoder
from sightline.model.config import Head
from sightline.pipelines.pipeline import BATCH_TOKENS, Pipeline, build_tokenized_text
from sightline.tracing import Choice, TokenizedText, Trace, TraceOptions, run_trace

MASK = "[MASK]"
"""What users type for the mask, whatever the tokenizer calls it."""


@dataclass(frozen=True)
class Candidate:
    """A word for a mask."""

    text: str
    """The whole text with this word filled in; other masks stay."""
    token: str
    probability: float


@dataclass(frozen=True)
class Filling:
    """The candidates for one mask, most likely first."""

    candidates: list[Candidate]


@dataclass(frozen=True)
class Gap:
    """The text before and after one mask."""

    before: str
    after: str


class Filler(Pipeline):
    """Predicts masked words. Here, and only here, "[MASK]" in a user's text is the mask token."""

    interfaces = (TextEncoder,)
    model: TextEncoder

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.mask_id = self.require_special_id("mask")
        names = sorted({MASK, self.tokenizer.roles["mask"]})
        self._mask = re.compile("|".join(map(re.escape, names)))

    @property
    def head(self) -> Head:
        """The masked-language-model head."""
        return "mlm"

    def fill(self, text: str, *, n: int = 5) -> list[Filling]:
        """Return the n most likely words for each mask of a text, each mask by itself."""
        return self.fillings([text], n=n)[0]

    def fillings(self, texts: Sequence[str], *, n: int = 5, batch_tokens: int = BATCH_TOKENS) -> list[list[Filling]]:
        """Return what `fill` does for each text."""
        for number, text in enumerate(texts, start=1):
            if not self._mask.search(text):
                which = f"text {number}" if len(texts) > 1 else "the text"
                raise InputError(f"{which} has no mask: put {MASK} where a word is missing")
        rows = [self.encode_text(text) for text in texts]
        self.check_lengths(rows)
        results: list[list[Filling]] = [[] for _ in texts]
        with self.inference_mode():
            for chosen, ids, lengths in self.iterate_batches(rows, batch_tokens=batch_tokens):
                masked = ids[token_mask(ids, lengths)] == self.mask_id
                hidden = self.model(ids, lengths=lengths, packed=True)[masked]
                scores = self.model.mlm(hidden).float().softmax(dim=1).cpu()
                gaps = [(number, gap) for number in chosen for gap in self.find_gaps(texts[number])]
                for (number, gap), probabilities in zip(gaps, scores, strict=True):
                    results[number].append(self.build_filling(gap, probabilities, n=n))
        return results

    def trace(self, text: str, **options: object) -> Trace:
        """Trace the model while it fills the masks of a text; `options` are those of `tracing.TraceOptions`.

        A text without a mask can be traced too; then nothing is predicted.
        """
        trace_options, _ = TraceOptions.of(options, generates=False)
        source = self.tokenize(text)
        self.check_lengths([source.tokens])
        ids = [token.id for token in source.tokens]
        with self.inference_mode():
            return run_trace(
                self.forward_pass(ids),
                trace_options,
                [Choice(row) for row, id_ in enumerate(ids) if id_ == self.mask_id],
                source=source,
                task=self.task,
                name=self.tokenizer.token_text,
                forbidden=self.excluded_ids,
            )

    def tokenize(self, text: str) -> TokenizedText:
        """Tokenize a text for a trace: the ids of `encode_text` with their spans."""
        marks = [mark.span() for mark in self._mask.finditer(text)]
        starts, ends = [0, *(end for _, end in marks)], [*(start for start, _ in marks), len(text)]
        spans = [(0, 0)]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            part = text[start:end] if number == len(marks) else self.strip_gap_space(text[start:end])
            spans += [(start + first, start + last) for first, last in self.tokenizer.offsets(part)]
            spans += marks[number : number + 1]
        return build_tokenized_text(text, self.encode_text(text), [*spans, (len(text), len(text))], self.tokenizer)

    @property
    def excluded_ids(self) -> list[int]:
        """Ids that are never candidates: special tokens, and ids without a token."""
        return sorted({*self.tokenizer.special_ids, *range(self.tokenizer.vocab_size, self.model.config.vocab_size)})

    def score_masked_tokens(self, batch: MaskedBatch) -> tuple[Float[Tensor, "M"], Bool[Tensor, "M"]]:
        """Return the log-probability of every masked token of a batch, and whether it is the most likely one."""
        batch = batch.to(self.embedding_weight.device)
        with self.inference_mode():
            hidden = self.model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
            chosen = batch.selected[token_mask(batch.inputs, batch.lengths)]
            likely = self.model.mlm(hidden[chosen]).float().log_softmax(dim=1)
            return likely.gather(1, batch.targets[:, None])[:, 0].cpu(), (likely.argmax(dim=1) == batch.targets).cpu()

    def encode_text(self, text: str) -> list[int]:
        """Tokenize a text, with the mask token for [MASK] and special tokens around it."""
        *parts, last = self._mask.split(text)
        first, *others = self.tokenizer.encode_batch([*map(self.strip_gap_space, parts), last])
        before, after = self.frame()
        return [*before, *first, *(id_ for part in others for id_ in (self.mask_id, *part)), *after]

    def find_gaps(self, text: str) -> list[Gap]:
        """Return the text around each mask."""
        marks = self._mask.finditer(text)
        return [Gap(self.strip_gap_space(text[: mark.start()]), text[mark.end() :]) for mark in marks]

    def strip_gap_space(self, text: str) -> str:
        """Return the text before a mask, without the space that belongs to the masked token."""
        return text.removesuffix(" ") if self.tokens_include_space else text

    def build_filling(self, gap: Gap, probabilities: Float[Tensor, "V"], *, n: int) -> Filling:
        """Return the most likely words for a mask; see `excluded_ids`."""
        allowed = probabilities.clone()
        allowed[self.excluded_ids] = -math.inf
        values, ids = allowed.sort(descending=True, stable=True)
        best = ids[values > -math.inf][: max(n, 0)].tolist()
        return Filling([self.build_candidate(gap, id_, float(probabilities[id_])) for id_ in best])

    def build_candidate(self, gap: Gap, id_: int, probability: float) -> Candidate:
        """Return a word with the text it completes."""
        word, shown = self.tokenizer.decode([id_]), self.tokenizer.token_text(id_)
        text = gap.before + (word if gap.before else word.lstrip(" ")) + gap.after
        return Candidate(text, shown.strip() or shown, probability)

    @cached_property
    def tokens_include_space(self) -> bool:
        """Whether the token of a word includes the space before it."""
        texts = (self.tokenizer.token_text(id_) for id_ in range(self.tokenizer.vocab_size))
        return any(len(text) > 1 and text[0] in " ▁" and text[1].isalpha() for text in texts)
