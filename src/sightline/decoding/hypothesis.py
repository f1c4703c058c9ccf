"""The results of a search: scored hypotheses. Without torch, so that every engine can return them."""

from dataclasses import dataclass

from sightline.decoding.settings import FinishReason


@dataclass(frozen=True)
class Hypothesis:
    """The tokens generated for one sentence, with their log-probabilities and score.

    The log-probabilities are the model's own, before temperature and logits processors. The score ranks the hypotheses
    of one sentence: `log_probability` under the length penalty, plus the coverage penalty. With a repetition penalty,
    the score (and only the score) uses the penalized probabilities instead.
    """

    ids: tuple[int, ...]
    """All generated tokens: a forced prefix first, the end token last if `finish_reason` is "eos"."""
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    """One for each of `ids`, including the end token; `log_probability` is their sum."""
    finish_reason: FinishReason

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens without the end token. A stop string is included, up to the token that completed it."""
        return self.ids[:-1] if self.finish_reason == "eos" else self.ids


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6)^α, the divisor of a log-probability (Wu et al. 2016, eq. 14)."""
    return float(((5 + length) / 6) ** alpha)
