"""How to decode: the knobs of every search, kept as generation.json in a model folder."""

from dataclasses import dataclass, field

from sightline.decoding.sequences import contains
from sightline.settings import Checks

MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class DecodingSettings:
    """One definition for greedy search, beam search and sampling; words are sequences of token ids."""

    beam: int = field(default=1, metadata={"help": "hypotheses kept at every step; 1 takes the likeliest token"})
    n_best: int = field(default=1, metadata={"help": "results per sentence (when sampling: independent samples)"})
    length_penalty: float = field(
        default=0.6, metadata={"help": "α: scores are log P / ((5 + length) / 6)^α; larger favours longer results"}
    )
    coverage_penalty: float = field(
        default=0.0, metadata={"help": "β: how much source words that nothing looked at cost; needs attention"}
    )
    min_length: int = field(default=0, metadata={"help": "tokens before the end token is allowed"})
    max_length: int = field(default=256, metadata={"help": "tokens at most, the end token counted"})
    sample: bool = field(default=False, metadata={"help": "draw tokens at random instead of searching"})
    temperature: float = field(default=1.0, metadata={"help": "when sampling: below 1 bolder choices are rarer"})
    top_k: int = field(default=0, metadata={"help": "when sampling: only the k likeliest tokens; 0 for all"})
    top_p: float = field(default=1.0, metadata={"help": "when sampling: the fewest tokens with this probability"})
    min_p: float = field(
        default=0.0, metadata={"help": "when sampling: only tokens this probable relative to the likeliest one"}
    )
    seed: int | None = field(default=None, metadata={"help": "when sampling: the same seed gives the same text"})
    repetition_penalty: float = field(
        default=1.0, metadata={"help": "θ of CTRL: above 1 makes tokens that were already there less likely"}
    )
    no_repeat_ngram: int = field(default=0, metadata={"help": "no n tokens in a row appear twice; 0 for no limit"})
    context_counts: bool = field(
        default=False,
        metadata={
            "help": "whether repetition_penalty and no_repeat_ngram look at the context too: "
            "usual for the prompt of a GPT, not for a translator"
        },
    )
    banned: tuple[tuple[int, ...], ...] = field(default=(), metadata={"help": "id sequences that never appear"})
    required: tuple[tuple[int, ...], ...] = field(default=(), metadata={"help": "id sequences that must appear"})
    stop: tuple[str, ...] = field(default=(), metadata={"help": "strings that end the text once it contains one"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.between(1, 1_000, beam=self.beam, n_best=self.n_best)
        checks.between(0, 10, length_penalty=self.length_penalty, coverage_penalty=self.coverage_penalty)
        checks.between(0, 1_000_000, min_length=self.min_length, top_k=self.top_k, no_repeat_ngram=self.no_repeat_ngram)
        checks.between(1, 1_000_000, max_length=self.max_length)
        checks.between(0.01, 100, temperature=self.temperature)
        checks.that(0 < self.top_p <= 1, f"top_p must be above 0 and at most 1, not {self.top_p}")
        checks.between(0, 1, min_p=self.min_p)
        checks.between(0.1, 10, repetition_penalty=self.repetition_penalty)
        checks.that(self.seed is None or 0 <= self.seed <= MAX_SEED, f"seed must be 0 or more, not {self.seed}")
        self._check_sequences(checks)
        self._check_combinations(checks)
        checks.done()

    def _check_sequences(self, checks: Checks) -> None:
        for name, sequences in (("banned", self.banned), ("required", self.required)):
            checks.that(all(sequences), f"{name} holds an empty sequence")
            checks.that(all(i >= 0 for sequence in sequences for i in sequence), f"{name} holds a negative id")
        checks.that(all(self.stop), "stop holds an empty string")
        for wanted in self.required:
            for banned in filter(None, self.banned):
                checks.that(not contains(wanted, banned), f"required {wanted} contains banned {banned}")

    def _check_combinations(self, checks: Checks) -> None:
        checks.that(
            self.min_length <= self.max_length,
            f"min_length ({self.min_length}) is more than max_length ({self.max_length})",
        )
        checks.that(
            self.sample or self.n_best <= self.beam,
            f"n_best ({self.n_best}) is more than beam ({self.beam}): a beam has that many results at most",
        )
        checks.that(
            not self.sample or self.beam == 1, f"sample draws one token at a time: it needs beam = 1, not {self.beam}"
        )
        checks.that(
            not self.sample or self.coverage_penalty == 0, "coverage_penalty ranks the results of a beam, not samples"
        )
        checks.that(
            not (self.required and self.stop),
            "required and stop exclude each other: a stop string could end the text before all required is there",
        )
