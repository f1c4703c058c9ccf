"""What a model wrote, as people want it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sightline.decoding import DecodingSettings, Finish, Hypothesis
from sightline.text import Tokenizer

SomeWriting = TypeVar("SomeWriting", bound="Writing")

HALF = "�"
"""What stands for bytes that are no character, or not yet."""


@dataclass(frozen=True)
class Writing:
    """A text, and what the model thought of it."""

    text: str
    score: float
    """What the results for one input are ranked by: the log-probability under the length penalty."""
    log_probability: float
    tokens: tuple[str, ...]
    """The pieces it was written in, as a person can read them."""
    finish: Finish
    """Why it ended: its end token, the length limit, or a stop string."""

    @classmethod
    def of(cls: type[SomeWriting], hypothesis: Hypothesis, text: str, tokenizer: Tokenizer) -> SomeWriting:
        """Return a result of a search with its text."""
        tokens = tuple(tokenizer.token_text(id_) for id_ in hypothesis.content)
        return cls(text, hypothesis.score, hypothesis.log_probability, tokens, hypothesis.finish)


def finished(text: str, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
    """Return a text without its stop string, and without a character that the length limit cut in two."""
    cut = before_stop(text, settings.stop)
    return cut.rstrip(HALF) if cut == text and hypothesis.finish == "length" else cut


def before_stop(text: str, stops: Sequence[str]) -> str:
    """Return what stands before the first stop string."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]
