"""One decision of a model: the candidates, their probabilities, and the one chosen."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A token or class that could have been chosen."""

    id: int
    text: str
    probability: float
    """The model's own, before temperature and logits processors."""


@dataclass(frozen=True)
class Step:
    """A generated token, a filled mask, or a predicted class."""

    row: int
    """The row of the tower's arrays that made this choice: the decoder's, or the encoder's in a Bert."""
    candidates: tuple[Candidate, ...]
    """Likeliest first; the chosen one comes last if it is not among the likeliest."""
    chosen: int
    """Index of the chosen candidate."""
    rank: int
    """Rank of the chosen candidate in the whole vocabulary: 0 for the likeliest."""
    log_probability: float
    """Of the chosen candidate."""

    @property
    def choice(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]
