"""What a model wrote, as people want it."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.decoding import DecodingSettings, Finish, Hypothesis
from sightline.text import Tokenizer

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


def tokens_of(hypothesis: Hypothesis, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the tokens of a result, without its end."""
    return tuple(tokenizer.token_text(id_) for id_ in hypothesis.content)


def finished(text: str, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
    """Return a text without its stop string, and without a character that the length limit cut in two."""
    cut = before_stop(text, settings.stop)
    return cut.rstrip(HALF) if cut == text and hypothesis.finish == "length" else cut


def before_stop(text: str, stops: Sequence[str]) -> str:
    """Return what stands before the first stop string."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]
