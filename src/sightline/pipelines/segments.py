"""The ordered stream of segments: texts are split, segments processed many at once, and results joined in order.

A segment is what a model reads at once: a sentence, or a part of one that is too long. Texts come in blocks; a block is
what can be read without waiting, so its results are yielded before the next block is asked for. No more than a certain
number of segments is held at a time, however many texts there are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeVar

from sightline.data.sentences import Span
from sightline.tracing.tokenized_text import UNSPACED

LOOK_AHEAD = 1_024
"""Segments that are held and sorted into batches together."""

Item = TypeVar("Item")
Parts = TypeVar("Parts")
Part = TypeVar("Part")
Result = TypeVar("Result")


def process_stream(
    blocks: Iterable[Iterable[Item]],
    *,
    split: Callable[[Item], Parts],
    parts_of: Callable[[Parts], Sequence[Part]],
    work: Callable[[list[Part]], Iterable[Result]],
    look_ahead: int = LOOK_AHEAD,
) -> Iterator[tuple[Item, Parts, list[Result]]]:
    """Yield each item as it was split, with the results of its parts, in order.

    `split` may refuse an item: then the results of all before it are yielded first.
    """
    for block in blocks:
        waiting: list[tuple[Item, Parts]] = []
        n_parts = 0
        for item in block:
            try:
                parts = split(item)
            except Exception:
                yield from process_waiting(waiting, parts_of, work, look_ahead)
                raise
            waiting.append((item, parts))
            n_parts += len(parts_of(parts))
            if n_parts >= look_ahead:
                yield from process_waiting(waiting, parts_of, work, look_ahead)
                waiting, n_parts = [], 0
        yield from process_waiting(waiting, parts_of, work, look_ahead)


def process_waiting(
    waiting: Sequence[tuple[Item, Parts]],
    parts_of: Callable[[Parts], Sequence[Part]],
    work: Callable[[list[Part]], Iterable[Result]],
    look_ahead: int,
) -> Iterator[tuple[Item, Parts, list[Result]]]:
    """Yield the items that wait, each with the results of its parts."""
    parts = [part for _, own in waiting for part in parts_of(own)]
    chunks = (parts[start : start + look_ahead] for start in range(0, len(parts), look_ahead))
    results = chain.from_iterable(map(work, chunks))  # as they come, since work may fail at any of them
    for item, own in waiting:
        yield item, own, list(islice(results, len(parts_of(own))))


@dataclass(frozen=True)
class Segment:
    """What a model reads at once, and where it stands in its text."""

    text: str
    span: Span
    ids: Sequence[int]
    """Tokens, with the language tag."""
    prefix: Sequence[int] = ()
    """Tokens that the output must begin with."""


@dataclass(frozen=True)
class SegmentedText:
    """A text and its segments, in order; between them is only white space."""

    text: str
    segments: Sequence[Segment]
    prefix: str = ""
    """What the output must begin with; all of it, if there is no segment."""
    warnings: Sequence[str] = field(default=())
    to: str | None = None
    """The language of the output, if it is known."""

    def join(self, targets: Sequence[str]) -> tuple[str, list[Span]]:
        """Return the outputs of the segments with what stood between them, and the span of each.

        Where nothing stood between two sentences, as in Chinese, a space is added if the output writes spaces.
        """
        if not self.segments:
            return self.prefix, []
        result, spans, end = "", list[Span](), 0
        for segment, target in zip(self.segments, targets, strict=True):
            between = self.text[end : segment.span[0]]
            if not between and result and target and not UNSPACED.search(result[-2:] + target[:1]):
                between = " "
            result += between
            spans.append((len(result), len(result) + len(target)))
            result, end = result + target, segment.span[1]
        return result + self.text[end:], spans
