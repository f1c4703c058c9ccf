"""Generated text with its scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sightline.decoding import DecodingSettings, FinishReason, Hypothesis
from sightline.text import Tokenizer

GenerationType = TypeVar("GenerationType", bound="Generation")

REPLACEMENT = "�"
"""The replacement character U+FFFD: bytes that are not a character, or not yet."""


@dataclass(frozen=True)
class Generation:
    """A generated text with its scores."""

    text: str
    score: float
    """Log-probability under the length penalty, by which the results for one input are ranked."""
    log_probability: float
    tokens: tuple[str, ...]
    """The generated tokens in readable form."""
    finish_reason: FinishReason
    """Why generation ended: end token, length limit, or stop string."""

    @classmethod
    def from_hypothesis(
        cls: type[GenerationType], hypothesis: Hypothesis, text: str, tokenizer: Tokenizer
    ) -> GenerationType:
        """Return a search result with its text."""
        tokens = tuple(tokenizer.token_text(id_) for id_ in hypothesis.content)
        return cls(text, hypothesis.score, hypothesis.log_probability, tokens, hypothesis.finish_reason)


def trim_text(text: str, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
    """Remove the stop string, and a last character that the length limit cut in two."""
    cut = cut_at_stop(text, settings.stop)
    return cut.rstrip(REPLACEMENT) if cut == text and hypothesis.finish_reason == "length" else cut


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first stop string."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]
