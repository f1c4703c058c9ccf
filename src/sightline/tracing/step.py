"""One decision of a model: what it could have said, how likely each was, and what was said."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A token, or a class, that could have been chosen."""

    id: int
    text: str
    probability: float
    """The model's own, before temperature and every rule of the search."""


@dataclass(frozen=True)
class Step:
    """A token that was written, a gap that was filled, or a class that was found."""

    row: int
    """The row of the tower's arrays that made this choice: the decoder's, or the encoder's in a Bert."""
    candidates: tuple[Candidate, ...]
    """The likeliest first; what was chosen comes last if it is not one of them."""
    chosen: int
    """Its place among the candidates."""
    rank: int
    """How many others are likelier: 0 for the likeliest of all."""
    log_probability: float
    """Of what was chosen."""

    @property
    def choice(self) -> Candidate:
        """What was chosen."""
        return self.candidates[self.chosen]
