"""From a request to an errand: limits looked at, tokens counted, room in the queue found."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from sightline.pipelines import Author, Pipeline, Task
from sightline.serving.api.shelf import Shelf
from sightline.serving.app import charge
from sightline.serving.limits import Limits, overloaded
from sightline.serving.problem import Problem
from sightline.serving.scheduler import FullError, Scheduler, StoppedError
from sightline.serving.work import Call, Work

WITHOUT_LIMIT = 4_096
"""Tokens that are read by a model that takes any number: a text as long as a body may be would stop the server."""
LONG = 20_000
"""Characters from which on making tokens of a text would keep everyone waiting."""

Made = TypeVar("Made")


class Desk:
    """Where endpoints hand in what is to be done."""

    def __init__(self, shelf: Shelf, scheduler: Scheduler, limits: Limits) -> None:
        self.shelf, self.scheduler, self.limits = shelf, scheduler, limits

    async def tasks(
        self, pipeline: Pipeline, make: Callable[[Any], Task | None], texts: Sequence[Any], *, param: str
    ) -> list[Task | None]:
        """Return the task for each text, refusing too many and too long ones."""
        self.check_batch(texts, param=param)
        made = [await aside(make, text) for text in texts]
        for task in made:
            if task is not None:
                self.check_length(pipeline, len(task.ids), param=param)
        return made

    def write(self, request: Request, author: Author, tasks: Sequence[Task | None], *, streams: bool = False) -> Work:
        """Hand texts in to be written, the tokens that are read, and those that may be written, being paid for."""
        charge(request, sum(len(task.ids) + task.n_most for task in tasks if task is not None))
        work = Work(author, tasks, streams=streams)
        self._submit(work)
        return work

    async def call(
        self, key: Hashable, function: Callable[[list[Any]], Sequence[Any]], items: Sequence[Any]
    ) -> list[Any]:
        """Have something done for each of some items, together with what others ask of the same kind."""
        call = Call(key, function, items)
        self._submit(call)
        return await call.results()

    async def read(
        self,
        request: Request,
        pipeline: Pipeline,
        what: Hashable,
        function: Callable[[list[Any]], Sequence[Any]],
        texts: Sequence[Any],
        *,
        param: str,
    ) -> tuple[list[Any], int]:
        """Have texts read by a model; return what it makes of each, and how many tokens they were."""
        self.check_batch(texts, param=param)
        counts = [await aside(lambda text: len(pipeline.tokenizer.encode(plain_text(text))), text) for text in texts]
        for count in counts:
            self.check_length(pipeline, count, param=param)
        charge(request, sum(counts))
        return await self.call((id(pipeline), what), function, texts), sum(counts)

    def check_room(self) -> None:
        """Refuse while the queue is full: nothing needs to be read for that."""
        if self.scheduler.is_full:
            raise overloaded(self.limits, retry_after=self.scheduler.seconds_to_wait())

    def check_batch(self, texts: Sequence[object], *, param: str) -> None:
        """Refuse no texts, and too many."""
        if not texts:
            raise Problem(400, f"{param} is empty: give at least one text", param=param, code="invalid_value")
        self.limits.check("batch", len(texts), param=param)

    def check_length(self, pipeline: Pipeline, n_tokens: int, *, param: str) -> None:
        """Refuse more tokens than the model takes, or the server lets it take."""
        most = self.limits.prompt_tokens or pipeline.max_length or WITHOUT_LIMIT
        if n_tokens > most:
            raise self.limits.exceeded("prompt_tokens", n_tokens, param=param, most=most)

    def _submit(self, errand: Work | Call) -> None:
        if (request := asyncio.current_task()) is not None:  # a stream may end before anyone began to read it
            request.add_done_callback(lambda _: errand.cancel())
        try:
            self.scheduler.submit(errand)
        except FullError as full:
            raise overloaded(self.limits, retry_after=full.seconds) from None
        except StoppedError:
            raise Problem(503, "the server is being stopped", code="stopping", retry_after=5) from None


async def aside(make: Callable[[Any], Made], text: Any) -> Made:
    """Make something of a text; if it is long, beside the event loop, which has others to answer."""
    if len(plain_text(text)) < LONG:
        return make(text)
    return await asyncio.to_thread(make, text)


def plain_text(text: Any) -> str:
    """Return all the words of a text, a pair of texts, or a list of turns."""
    return text if isinstance(text, str) else " ".join(text)
