"""The confidence of a generated text: how often one with a score like its own was right on the validation set.

A score is the mean log-probability of a text's tokens, so that long and short texts compare. `Calibration.fit` sorts
the texts of a validation set by it, cuts them into bins, and pools neighbors until a higher score never means a lower
share of right ones (isotonic regression by pooling adjacent violators). A score is then looked up in the bins.

What is right is one of two things, whichever says more of the task: *exact*, a text that equals its reference, if at
least a fifth of them do; else *close*, a text whose chrF against its reference is 60 or more.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sightline.config import Checks
from sightline.decoding.settings import DecodingSettings

MIN_EXAMPLES = 100
"""Fewer texts say too little: there is no calibration then."""
MIN_BIN = 30
MAX_BINS = 20
MIN_EXACT = 0.2
"""Share of exact matches from which on they decide what is right."""
CLOSE_CHRF = 60.0

Criterion = Literal["exact", "close"]


@dataclass(frozen=True)
class Bin:
    """Texts of the validation set with similar scores."""

    low: float
    """The lowest score among them."""
    count: int
    right: int


@dataclass(frozen=True)
class Confidence:
    """How often texts with a similar score were right, between 0 and 1."""

    share: float
    low: float
    high: float
    """Ends of the 95 % interval (Wilson) for so many texts."""
    count: int


@dataclass(frozen=True)
class Calibration:
    """Scores of the validation set and how many of its texts were right, for one way of decoding."""

    criterion: Criterion
    decoding: DecodingSettings
    """What the texts were generated with."""
    bins: tuple[Bin, ...]
    """By ascending score."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(0 < len(self.bins) <= MAX_BINS, f"a calibration has 1 to {MAX_BINS} bins, not {len(self.bins)}")
        lows = [one.low for one in self.bins]
        checks.that(lows == sorted(set(lows)), "the bins of a calibration must ascend")
        checks.that(
            all(0 <= one.right <= one.count and 0 < one.count < 1 << 53 for one in self.bins),
            "a bin of a calibration cannot have more right texts than texts",
        )
        checks.done()

    @classmethod
    def fit(
        cls, scores: Sequence[float], right: Sequence[bool], *, criterion: Criterion, decoding: DecodingSettings
    ) -> "Calibration | None":
        """Return the calibration by these texts; None if they are too few, or sampled at random."""
        if len(scores) < MIN_EXAMPLES or decoding.do_sample:
            return None
        size = max(MIN_BIN, math.ceil(len(scores) / MAX_BINS))
        bins: list[Bin] = []
        highest = -math.inf
        for score, is_right in sorted(zip(scores, right, strict=True)):
            one = Bin(score, 1, int(is_right))
            if bins and (bins[-1].count < size or score == highest):  # equal scores are in one bin
                bins[-1] = pool(bins[-1], one)
            else:
                bins.append(one)
            highest = score
        if len(bins) > 1 and bins[-1].count < MIN_BIN:
            bins[-2:] = [pool(*bins[-2:])]
        return cls(criterion, decoding, tuple(make_monotone(bins)))

    def confidence_of(self, score: float) -> Confidence | None:
        """Return how often a score like this was right; None for one below all that were seen."""
        index = bisect_right([one.low for one in self.bins], score) - 1
        return interval_of(self.bins[index]) if index >= 0 else None

    def applies_to(self, settings: DecodingSettings) -> bool:
        """Tell whether texts generated with these settings can be compared with those of the validation set."""
        return not settings.do_sample and comparable(settings) == comparable(self.decoding)


def make_monotone(bins: Sequence[Bin]) -> list[Bin]:
    """Pool neighbors until the confidence never falls with the score."""
    found: list[Bin] = []
    for one in bins:
        found.append(one)
        while len(found) > 1 and interval_of(found[-2]).share >= interval_of(found[-1]).share:
            found[-2:] = [pool(*found[-2:])]
    return found


def pool(first: Bin, second: Bin) -> Bin:
    """Join two neighboring bins."""
    return Bin(first.low, first.count + second.count, first.right + second.right)


def interval_of(one: Bin, z: float = 1.96) -> Confidence:
    """Return the share of right texts in a bin with its Wilson interval.

    The share is the middle of the interval: all of 30 texts right is not certainty.
    """
    n, share = one.count, one.right / one.count
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Confidence(middle, max(0.0, middle - half), min(1.0, middle + half), n)


def comparable(settings: DecodingSettings) -> DecodingSettings:
    """Return the settings without those that do not change the best result of a search."""
    return replace(
        settings, n_best=1, max_new_tokens=1_000_000, seed=None, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0
    )
