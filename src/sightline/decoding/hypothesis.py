"""One result of a search."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Finish: TypeAlias = Literal["end", "length", "stop"]
"""Why a text ended: its end token, the length limit, or a stop string."""


@dataclass(frozen=True)
class Hypothesis:
    """What was generated for one sentence, with what the model thought of it.

    The log-probabilities are the model's own, before temperature and every rule. The score is what hypotheses of one
    sentence are ranked by: `log_probability` under the length penalty, plus the coverage penalty. Where a repetition
    penalty is set, the ranking (and only the ranking) sees the penalised probabilities instead.
    """

    ids: tuple[int, ...]
    """All generated tokens: a forced prefix first, the end token last where `finish` is "end"."""
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    """One for each of `ids`, the end token's too; `log_probability` is their sum."""
    finish: Finish

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens without the end token. A stop string is still in them, up to the token that completed it."""
        return self.ids[:-1] if self.finish == "end" else self.ids
