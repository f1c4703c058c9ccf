"""Which language a text is in, for a model of several: how often each of its tokens occurs in each of them.

Naive Bayes over the model's own tokens (no languages are known beforehand), counted in the training texts. A token's
log-probability takes one byte, so that the table of a vocabulary and its languages fits into training.json.
"""

import base64
import binascii
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from sightline.config import Checks

MAX_LANGUAGES = 100
MAX_TABLE_BYTES = 1 << 20
MAX_DETECTED_LENGTH = 1_000
"""Characters of a text from which its language is detected: more would not make it surer."""
LEVELS_PER_BIT = 8
"""A stored byte is the information of a token in bits, times this: probabilities down to 2⁻³², 9 % apart."""


@dataclass(frozen=True)
class LanguageStatistics:
    """How often each token occurs in each language."""

    tokens: Mapping[str, str]
    """For each language one byte per token id in base64: its negative log-probability (see `LEVELS_PER_BIT`)."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        n = len(self.tokens)
        checks.that(1 <= n <= MAX_LANGUAGES, f"there must be between 1 and {MAX_LANGUAGES} languages, not {n:,}")
        sizes = set()
        for language, table in self.tokens.items():
            try:
                sizes.add(len(base64.b64decode(table, validate=True)))
            except (binascii.Error, ValueError):
                checks.that(False, f"the table of {language[:20]!r} is not base64")
        checks.that(len(sizes) <= 1, "the tables of the languages differ in length")
        checks.that(max(sizes, default=0) <= MAX_TABLE_BYTES, f"a table has more than {MAX_TABLE_BYTES:,} bytes")
        checks.done()

    @functools.cached_property
    def log_probs(self) -> Float[ndarray, "languages V"]:
        """The log-probabilities, in bits."""
        tables = [np.frombuffer(base64.b64decode(table), dtype=np.uint8) for table in self.tokens.values()]
        return -np.stack(tables).astype(np.float64) / LEVELS_PER_BIT

    @functools.cached_property
    def occurs(self) -> Bool[ndarray, " V"]:
        """Which tokens occur in some language: the others are as unlikely as its unlikeliest in each of them."""
        lowest = self.log_probs.min(axis=1, keepdims=True)
        found: Bool[ndarray, " V"] = (self.log_probs > lowest).any(axis=0)
        return found

    def detect(self, ids: Sequence[int]) -> dict[str, float]:
        """Return the probability of each language, the likeliest first; equal ones for a text without known tokens."""
        bits = self.sum_bits([id_ for id_ in ids if id_ < len(self.occurs) and self.occurs[id_]])
        weights = np.exp2(bits - bits.max(initial=-np.inf))
        found = zip(self.tokens, (weights / weights.sum()).tolist(), strict=True)
        return dict(sorted(found, key=lambda pair: -pair[1]))

    def sum_bits(self, ids: Sequence[int]) -> Float[ndarray, " languages"]:
        """Return the log-probability of a text in each language, in bits."""
        known = [id_ for id_ in ids if id_ < self.log_probs.shape[1]]
        found: Float[ndarray, " languages"] = self.log_probs[:, known].sum(axis=1)
        return found

    def mean_information(self, texts: Iterable[Sequence[int]]) -> float:
        """Return the information of a token in bits, each text read as the language in which it is the likeliest."""
        read = [(-float(self.sum_bits(ids).max()), len(ids)) for ids in texts]
        return sum(bits for bits, _ in read) / max(1, sum(length for _, length in read))


def collect_language_statistics(counts: Mapping[str, Int[ndarray, " V"]]) -> LanguageStatistics:
    """Return the statistics from the number of times that each token occurs in each language."""
    tables = {}
    for language, found in counts.items():
        smoothed = found + 0.5  # a token that does not occur is rare, not impossible
        bits = -np.log2(smoothed / smoothed.sum())
        levels = np.clip(np.rint(bits * LEVELS_PER_BIT), 0, 255).astype(np.uint8)
        tables[language] = base64.b64encode(levels.tobytes()).decode("ascii")
    return LanguageStatistics(tables)
