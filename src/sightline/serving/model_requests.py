"""What an HTTP request asks of a model: the event loop waits for it, the scheduler's thread computes it.

A `GenerationRequest` is texts to generate (a `GenerationJob` each), which share the model's steps with the jobs of all
other requests. A `BatchedCall` is one function call: calls with the same key that wait at the same time become one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sightline.decoding import FinishReason, StepResult
from sightline.pipelines import Generation, GenerationJob, GenerativePipeline, TextStreamer


@dataclass(frozen=True)
class TextChunk:
    """The next part of a generated text, sent as soon as it is final."""

    job: int
    """Index of the job in its request."""
    choice: int
    """Index of the alternative in its job."""
    text: str
    n_tokens: int
    """Tokens of this text so far."""
    finish_reason: FinishReason | None = None
    """Why the text is complete; None while it is not."""


class ModelRequest:
    """Base of all requests to a model; created on the event loop that waits for it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self.is_cancelled = False
        """No client waits for it any more; written by the event loop, read by the scheduler's thread."""

    def cancel(self) -> None:
        """Mark the request as no longer waited for."""
        self.is_cancelled = True

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """Set the result or the error (called on the event loop)."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(result)
        else:
            self.done.set_exception(error)


class GenerationRequest(ModelRequest):
    """Texts to generate with one pipeline."""

    def __init__(
        self, pipeline: GenerativePipeline, jobs: Sequence[GenerationJob | None], *, streams: bool = False
    ) -> None:
        """A job that is None has nothing to generate; `streams` asks for chunks on the way."""
        super().__init__()
        self.pipeline, self.jobs, self.streams = pipeline, jobs, streams
        self.unfinished = {index for index, job in enumerate(jobs) if job is not None}
        """Indices of the jobs that are not complete."""
        self.chunks: asyncio.Queue[TextChunk | None] = asyncio.Queue()
        self.streamers: dict[tuple[int, int], TextStreamer] = {}

    async def results(self) -> list[list[Generation]]:
        """Wait, and return the texts of each job; an empty list for a job that is None."""
        try:
            await self.done
        finally:
            self.cancel()
        return [[] if job is None else job.results() for job in self.jobs]

    async def stream(self) -> AsyncIterator[TextChunk]:
        """Yield the chunks of all texts as they come; raise the error if the request fails."""
        try:
            while (chunk := await self.chunks.get()) is not None:
                yield chunk
            await self.done
        finally:
            self.cancel()

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """Set the result or the error, and end the stream."""
        super().finish(result, error)
        self.chunks.put_nowait(None)
        if error is not None and not self.done.cancelled():
            self.done.exception()  # a client that left its stream never awaits it: asyncio must not log that

    def make_chunks(self, index: int, result: StepResult | None, *, is_done: bool) -> list[TextChunk]:
        """Return what a step has made final of a job (called by the scheduler's thread)."""
        job = self.jobs[index]
        if not self.streams or job is None:
            return []
        if result is None:  # beam search knows its texts only at the end
            return self._whole_texts(index, job) if is_done else []
        return [
            self._next_chunk(index, job, row, token, result)
            for row, token in zip(result.rows, result.tokens, strict=True)
        ]

    def _next_chunk(self, index: int, job: GenerationJob, row: int, token: int, result: StepResult) -> TextChunk:
        streamer = self.streamers.setdefault((index, row), job.create_streamer())
        hypothesis = result.finished.get(row)
        text = streamer.put(token) if hypothesis is None else streamer.end(hypothesis)
        n_tokens = len(streamer.ids) if hypothesis is None else len(hypothesis.ids)
        return TextChunk(index, row, text, n_tokens, hypothesis.finish_reason if hypothesis else None)

    def _whole_texts(self, index: int, job: GenerationJob) -> list[TextChunk]:
        generated = zip(job.results(), job.search.hypotheses[0], strict=True)
        return [
            TextChunk(index, choice, generation.text, len(hypothesis.ids), generation.finish_reason)
            for choice, (generation, hypothesis) in enumerate(generated)
        ]


BatchFunction: TypeAlias = Callable[[list[Any]], Sequence[Any]]


class BatchedCall(ModelRequest):
    """Items for a function that takes many at once and returns a result for each."""

    def __init__(self, key: Hashable, function: BatchFunction, items: Sequence[Any]) -> None:
        """Calls with the same `key` have the same `function` and can be merged."""
        super().__init__()
        self.key, self.function, self.items = key, function, items

    async def results(self) -> list[Any]:
        """Wait, and return the result of each item."""
        try:
            return list(await self.done)
        finally:
            self.cancel()
