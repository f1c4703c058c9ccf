"""Stop strings: where a text ends, what is removed of it, and what of a growing text can be shown already.

Searches know nothing of this but a predicate on ids (`decoding.Request.is_complete`).
"""

from collections.abc import Callable, Sequence

from sightline.decoding import FinishReason
from sightline.pipelines.detokenizer import REPLACEMENT


class StopStrings:
    """The strings at the first of which a text ends; none of them is part of it."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stops)

    def predicate(self, to_text: Callable[[Sequence[int]], str]) -> Callable[[Sequence[int]], bool] | None:
        """Return what tells whether the text of some ids contains a stop string; None if there are none."""
        if not self.stops:
            return None

        def is_complete(ids: Sequence[int]) -> bool:
            text = to_text(ids)
            return any(stop in text for stop in self.stops)

        return is_complete

    def cut(self, text: str) -> str:
        """Return the text before the first stop string."""
        return text[: min((place for stop in self.stops if (place := text.find(stop)) >= 0), default=len(text))]

    def trim(self, text: str, finish_reason: FinishReason) -> str:
        """Return a complete text without its stop string, and without a last character that the limit cut in two."""
        cut = self.cut(text)
        return cut.rstrip(REPLACEMENT) if cut == text and finish_reason == "length" else cut

    def stable(self, text: str) -> str:
        """Return the part of a text that stays, whatever follows: no partial stop string, no incomplete character."""
        text = self.cut(text)
        partial = [length for stop in self.stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
        return text[: len(text) - max(partial, default=0)].rstrip(REPLACEMENT)
