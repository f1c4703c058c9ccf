"""Decoding settings for every kind of search, stored as generation.json in a model folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sightline.config import Checks

FinishReason: TypeAlias = Literal["eos", "length", "stop"]
"""Why a text ended: an end token, the length limit, or a stop string."""

MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class DecodingSettings:
    """Settings of greedy search, beam search and sampling; words are sequences of token ids."""

    beam_size: int = field(
        default=1, metadata={"help": "beam size: hypotheses kept at every step; 1 for greedy search"}
    )
    n_best: int = field(
        default=1, metadata={"help": "number of results per sentence (with do_sample: independent samples)"}
    )
    length_penalty: float = field(
        default=0.6,
        metadata={"help": "length penalty α: scores are log P / ((5 + length) / 6)^α; larger favors longer results"},
    )
    coverage_penalty: float = field(
        default=0.0,
        metadata={"help": "coverage penalty β: cost of source tokens without attention; needs cross-attention"},
    )
    min_new_tokens: int = field(
        default=0, metadata={"help": "minimum number of tokens before the end token is allowed"}
    )
    max_new_tokens: int = field(
        default=256, metadata={"help": "maximum number of generated tokens, including the end token"}
    )
    do_sample: bool = field(default=False, metadata={"help": "sample tokens at random instead of searching"})
    temperature: float = field(
        default=1.0,
        metadata={"help": "sampling temperature: below 1 favors likely tokens, above 1 flattens the distribution"},
    )
    top_k: int = field(default=0, metadata={"help": "top-k sampling: only the k likeliest tokens; 0 for all"})
    top_p: float = field(
        default=1.0,
        metadata={
            "help": "nucleus sampling: only the likeliest tokens that together reach this probability; 1 for all"
        },
    )
    min_p: float = field(
        default=0.0,
        metadata={
            "help": "min-p sampling: only tokens at least this probable relative to the likeliest one; 0 for all"
        },
    )
    seed: int | None = field(
        default=None, metadata={"help": "random seed for sampling: the same seed gives the same text"}
    )
    repetition_penalty: float = field(
        default=1.0,
        metadata={"help": "repetition penalty (CTRL): above 1 makes tokens less likely that already appeared"},
    )
    no_repeat_ngram_size: int = field(
        default=0, metadata={"help": "size of n-grams that may not appear twice; 0 for no limit"}
    )
    include_prompt: bool = field(
        default=False,
        metadata={
            "help": "apply repetition_penalty and no_repeat_ngram_size to the prompt too: "
            "usual for a GPT, not for a translator"
        },
    )
    bad_words: tuple[tuple[int, ...], ...] = field(default=(), metadata={"help": "id sequences that must not appear"})
    forced_words: tuple[tuple[int, ...], ...] = field(default=(), metadata={"help": "id sequences that must appear"})
    stop: tuple[str, ...] = field(default=(), metadata={"help": "stop strings: the text ends once it contains one"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 1_000, beam_size=self.beam_size, n_best=self.n_best)
        checks.between(0, 10, length_penalty=self.length_penalty, coverage_penalty=self.coverage_penalty)
        checks.between(
            0,
            1_000_000,
            min_new_tokens=self.min_new_tokens,
            top_k=self.top_k,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
        )
        checks.between(1, 1_000_000, max_new_tokens=self.max_new_tokens)
        checks.between(0.01, 100, temperature=self.temperature)
        checks.that(0 < self.top_p <= 1, f"top_p must be above 0 and at most 1, not {self.top_p}")
        checks.between(0, 1, min_p=self.min_p)
        checks.between(0.1, 10, repetition_penalty=self.repetition_penalty)
        checks.that(self.seed is None or 0 <= self.seed <= MAX_SEED, f"seed must be 0 or more, not {self.seed}")
        self._check_sequences(checks)
        self._check_combinations(checks)
        checks.done()

    def _check_sequences(self, checks: Checks) -> None:
        for name, sequences in (("bad_words", self.bad_words), ("forced_words", self.forced_words)):
            checks.that(all(sequences), f"{name} holds an empty sequence")
            checks.that(all(i >= 0 for sequence in sequences for i in sequence), f"{name} holds a negative id")
        checks.that(all(self.stop), "stop holds an empty string")
        for forced in self.forced_words:
            for bad in filter(None, self.bad_words):
                checks.that(not contains(forced, bad), f"forced_words {forced} contains bad_words {bad}")

    def _check_combinations(self, checks: Checks) -> None:
        checks.that(
            self.min_new_tokens <= self.max_new_tokens,
            f"min_new_tokens ({self.min_new_tokens}) is more than max_new_tokens ({self.max_new_tokens})",
        )
        checks.that(
            self.do_sample or self.n_best <= self.beam_size,
            f"n_best ({self.n_best}) is more than beam_size ({self.beam_size}), the most results that a beam has",
        )
        checks.that(
            not self.do_sample or self.beam_size == 1,
            f"do_sample draws one token at a time: it needs beam_size = 1, not {self.beam_size}",
        )
        checks.that(
            not self.do_sample or self.coverage_penalty == 0,
            "coverage_penalty ranks the results of a beam, not samples",
        )
        checks.that(
            not (self.forced_words and self.stop),
            "forced_words and stop exclude each other: a stop string could end the text before all forced words appear",
        )


def contains(sequence: Sequence[int], part: Sequence[int]) -> bool:
    """Tell whether `part` occurs in `sequence` without gaps."""
    width = len(part)
    return any(tuple(sequence[i : i + width]) == tuple(part) for i in range(len(sequence) - width + 1))
