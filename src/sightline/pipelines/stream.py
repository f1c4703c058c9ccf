"""Pieces of a text while it is written: together exactly the text, and none that would have to be taken back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from sightline.decoding import DecodingSettings, Stride
from sightline.pipelines.spelling import Speller
from sightline.pipelines.writing import HALF, before_stop, finished


def pieces(
    strides: Iterator[Stride],
    speller: Speller,
    settings: DecodingSettings,
    *,
    at_work: Callable[[], AbstractContextManager[None]],
) -> Iterator[str]:
    """Yield what is certain of the one text that is written; the model is at work only while nobody else is."""
    ids: list[int] = []
    shown = 0
    while True:
        with at_work():
            stride = next(strides)
        ids += stride.tokens
        hypothesis = next(iter(stride.finished.values()), None)
        if hypothesis is None:
            text = certain(speller(ids), settings.stop)
        else:
            text = finished(speller.whole(hypothesis.content), hypothesis, settings)
        if len(text) > shown:
            yield text[shown:]
            shown = len(text)
        if hypothesis is not None:
            return


def certain(text: str, stops: Sequence[str]) -> str:
    """Return as much of a text as will be there whatever follows."""
    text = before_stop(text, stops)
    waiting = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return text[: len(text) - max(waiting, default=0)].rstrip(HALF)
