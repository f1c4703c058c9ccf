"""What a request asks of a model, as two sides see it: the event loop waits for it, the worker's thread does it.

`Work` is texts to be written, which share the steps of a model with those of all other requests. A `Call` is done in
one go: calls of one kind that wait at the same time become one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sightline.decoding import Finish, Stride
from sightline.pipelines import Author, Task, Unfolding, Writing


@dataclass(frozen=True)
class Piece:
    """Some more of one of the texts, as soon as it is certain."""

    task: int
    """Which text of the request."""
    choice: int
    """Which of its alternatives."""
    text: str
    tokens: int
    """Tokens of this text so far."""
    finish: Finish | None = None
    """Why the text is complete, if it is."""


class Errand:
    """What somebody waits for; to be made on their event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self.is_cancelled = False
        """Nobody waits any more; written by the event loop, read by the worker."""

    def cancel(self) -> None:
        """Say that nobody waits any more."""
        self.is_cancelled = True

    def settle(self, result: Any = None, error: BaseException | None = None) -> None:
        """Say that it is done, or why it cannot be (called on the event loop)."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(result)
        else:
            self.done.set_exception(error)


class Work(Errand):
    """Texts to be written by one model."""

    def __init__(self, author: Author, tasks: Sequence[Task | None], *, streams: bool = False) -> None:
        """`tasks` that are None have nothing to be written; `streams` asks for pieces on the way."""
        super().__init__()
        self.author, self.tasks, self.streams = author, tasks, streams
        self.open = {number for number, task in enumerate(tasks) if task is not None}
        """Tasks that are not complete."""
        self.pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self.texts: dict[tuple[int, int], Unfolding] = {}

    async def results(self) -> list[list[Writing]]:
        """Wait, and return what was written for each task; nothing where there was nothing to do."""
        try:
            await self.done
        finally:
            self.cancel()
        return [[] if task is None else task.results() for task in self.tasks]

    async def stream(self) -> AsyncIterator[Piece]:
        """Yield the pieces of all texts as they come; raise what went wrong."""
        try:
            while (piece := await self.pieces.get()) is not None:
                yield piece
            await self.done
        finally:
            self.cancel()

    def settle(self, result: Any = None, error: BaseException | None = None) -> None:
        """Say that all is written, or why it cannot be."""
        super().settle(result, error)
        self.pieces.put_nowait(None)
        if error is not None and not self.done.cancelled():
            self.done.exception()  # whoever streams and has left does not ask; that is no news for a log

    def pieces_of(self, number: int, stride: Stride | None, *, is_done: bool) -> list[Piece]:
        """Return what a step has made certain of a task (called by the worker)."""
        task = self.tasks[number]
        if not self.streams or task is None:
            return []
        if stride is None:  # a beam knows its texts when it is done
            return self._whole(number, task) if is_done else []
        return [self._piece(number, row, token, stride) for row, token in zip(stride.rows, stride.tokens, strict=True)]

    def _piece(self, number: int, row: int, token: int, stride: Stride) -> Piece:
        task = self.tasks[number]
        assert task is not None  # noqa: S101 - it was asked before
        text = self.texts.setdefault((number, row), task.unfolding())
        hypothesis = stride.finished.get(row)
        piece = text.grow(token) if hypothesis is None else text.end(hypothesis)
        n_tokens = len(text.ids) if hypothesis is None else len(hypothesis.ids)
        return Piece(number, row, piece, n_tokens, hypothesis.finish if hypothesis else None)

    def _whole(self, number: int, task: Task) -> list[Piece]:
        return [
            Piece(number, choice, writing.text, len(hypothesis.ids), writing.finish)
            for choice, (writing, hypothesis) in enumerate(zip(task.results(), task.search.hypotheses[0], strict=True))
        ]


Many: TypeAlias = Callable[[list[Any]], Sequence[Any]]


class Call(Errand):
    """Things to be done by a function that takes many of them at once and gives a result for each."""

    def __init__(self, key: Hashable, function: Many, items: Sequence[Any]) -> None:
        """Calls with the same `key` have the same `function`, and can be put together."""
        super().__init__()
        self.key, self.function, self.items = key, function, items

    async def results(self) -> list[Any]:
        """Wait, and return the result of each item."""
        try:
            return list(await self.done)
        finally:
            self.cancel()
