"""Pieces of a text while it is written: together exactly the text, and none that would have to be taken back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from sightline.decoding import DecodingSettings, Hypothesis, Stride
from sightline.pipelines.spelling import Speller
from sightline.pipelines.writing import HALF, before_stop, finished


class Unfolding:
    """One text that grows: what is certain of it, as it becomes certain."""

    def __init__(self, speller: Speller, settings: DecodingSettings) -> None:
        self.speller, self.settings = speller, settings
        self.ids: list[int] = []
        self.shown = 0

    def grow(self, token: int) -> str:
        """Take one more token; return what that adds to the certain text, which may be nothing."""
        self.ids.append(token)
        return self._new(certain(self.speller(self.ids), self.settings.stop))

    def end(self, hypothesis: Hypothesis) -> str:
        """Return what is still missing of a text that is complete."""
        return self._new(finished(self.speller.whole(hypothesis.content), hypothesis, self.settings))

    def _new(self, text: str) -> str:
        piece = text[self.shown :]
        self.shown = max(self.shown, len(text))
        return piece


def pieces(
    strides: Iterator[Stride], unfolding: Unfolding, *, at_work: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Yield what is certain of the one text that is written; the model is at work only while nobody else is."""
    while True:
        with at_work():
            stride = next(strides)
        hypothesis = next(iter(stride.finished.values()), None)
        piece = unfolding.grow(stride.tokens[0]) if hypothesis is None else unfolding.end(hypothesis)
        if piece:
            yield piece
        if hypothesis is not None:
            return


def certain(text: str, stops: Sequence[str]) -> str:
    """Return as much of a text as will be there whatever follows."""
    text = before_stop(text, stops)
    waiting = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return text[: len(text) - max(waiting, default=0)].rstrip(HALF)
