"""Streaming: text in pieces while it is generated. Together they are exactly the text; none is ever taken back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from sightline.decoding import DecodingSettings, Hypothesis, StepResult
from sightline.pipelines.detokenizer import IncrementalDetokenizer
from sightline.pipelines.generation import REPLACEMENT, cut_at_stop, trim_text


class TextStreamer:
    """Turns the tokens of one text into pieces, each as soon as it is final."""

    def __init__(self, detokenizer: IncrementalDetokenizer, settings: DecodingSettings) -> None:
        self.detokenizer, self.settings = detokenizer, settings
        self.ids: list[int] = []
        self.n_shown = 0

    def put(self, token: int) -> str:
        """Add a token and return the new piece, which may be empty."""
        self.ids.append(token)
        return self._new(stable_text(self.detokenizer(self.ids), self.settings.stop))

    def end(self, hypothesis: Hypothesis) -> str:
        """Return the last piece of a complete text."""
        return self._new(trim_text(self.detokenizer.decode_all(hypothesis.content), hypothesis, self.settings))

    def _new(self, text: str) -> str:
        piece = text[self.n_shown :]
        self.n_shown = max(self.n_shown, len(text))
        return piece


def stream_pieces(
    results: Iterator[StepResult], streamer: TextStreamer, *, inference_mode: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Yield the pieces of one text; the model is in inference mode only during a step, not between pieces."""
    while True:
        with inference_mode():
            result = next(results)
        hypothesis = next(iter(result.finished.values()), None)
        piece = streamer.put(result.tokens[0]) if hypothesis is None else streamer.end(hypothesis)
        if piece:
            yield piece
        if hypothesis is not None:
            return


def stable_text(text: str, stops: Sequence[str]) -> str:
    """Return the part of a text that stays, whatever follows: no partial stop string, no incomplete character."""
    text = cut_at_stop(text, stops)
    partial = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return text[: len(text) - max(partial, default=0)].rstrip(REPLACEMENT)
