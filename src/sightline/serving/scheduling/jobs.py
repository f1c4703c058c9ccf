"""Jobs: what HTTP requests ask of a model, the queue they wait in, and the running batch they share.

A `GenerationRequest` is texts to generate (a `GenerationJob` each), which share the model's steps with the jobs of all
other requests. A `BatchedCall` is one function call: calls with the same key that wait at the same time become one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.decoding.settings import FinishReason

if TYPE_CHECKING:
    from sightline.decoding import SearchUpdate, StepResult
    from sightline.engine.interfaces import Engine
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
        self, pipeline: "GenerativePipeline", jobs: "Sequence[GenerationJob | None]", *, streams: bool = False
    ) -> None:
        """A job that is None has nothing to generate; `streams` asks for chunks on the way."""
        super().__init__()
        self.engine, self.jobs, self.streams = pipeline.engine, jobs, streams
        self.unfinished = {index for index, job in enumerate(jobs) if job is not None}
        """Indices of the jobs that are not complete."""
        self.chunks: asyncio.Queue[TextChunk | None] = asyncio.Queue()
        self.streamers: dict[tuple[int, int], TextStreamer] = {}

    async def results(self) -> "list[list[Generation]]":
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

    def make_chunks(self, index: int, result: "StepResult | None", *, is_done: bool) -> list[TextChunk]:
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

    def _next_chunk(self, index: int, job: "GenerationJob", row: int, token: int, result: "StepResult") -> TextChunk:
        streamer = self.streamers.setdefault((index, row), job.create_streamer())
        hypothesis = result.finished.get(row)
        text = streamer.put(token) if hypothesis is None else streamer.end(hypothesis)
        n_tokens = len(streamer.ids) if hypothesis is None else len(hypothesis.ids)
        return TextChunk(index, row, text, n_tokens, hypothesis.finish_reason if hypothesis else None)

    def _whole_texts(self, index: int, job: "GenerationJob") -> list[TextChunk]:
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


@dataclass(frozen=True)
class RequestJob:
    """One job of one request."""

    request: GenerationRequest
    index: int

    @property
    def n_rows(self) -> int:
        """Maximum number of batch rows it needs."""
        job = self.request.jobs[self.index]
        return job.n_rows if job else 0

    @property
    def n_prompt_tokens(self) -> int:
        """Tokens to prefill."""
        job = self.request.jobs[self.index]
        return len(job.prompt) if job else 0


MAX_PREFILL_TOKENS = 4_096
"""Prompt tokens prefilled between two steps: all running jobs wait that long."""
MAX_CALL_ITEMS = 64
"""Items from which on no further call is merged."""


@dataclass
class StepBudget:
    """Room for new jobs before the next step."""

    rows: int
    prefill_tokens: int = MAX_PREFILL_TOKENS
    is_idle: bool = False
    """No job is running: then the first is admitted even if it exceeds the budget."""

    def try_admit(self, job: RequestJob) -> bool:
        """Spend the budget on a job; return whether it fits."""
        if not self.is_idle and (job.n_rows > self.rows or job.n_prompt_tokens > self.prefill_tokens):
            return False
        self.rows -= job.n_rows
        self.prefill_tokens -= job.n_prompt_tokens
        self.is_idle = False
        return True


@dataclass
class StepPlan:
    """What to do before the next step: jobs to admit, and calls to merge into one."""

    jobs: list[RequestJob] = field(default_factory=list)
    calls: list[BatchedCall] = field(default_factory=list)

    def try_merge(self, call: BatchedCall) -> bool:
        """Add a call if it has the key of the others and they are not too many."""
        if self.calls and (call.key != self.calls[0].key or count_items(self.calls) >= MAX_CALL_ITEMS):
            return False
        self.calls.append(call)
        return True


class JobQueue:
    """Jobs and calls that have not started; not thread-safe by itself."""

    def __init__(self) -> None:
        self.waiting: deque[RequestJob | BatchedCall] = deque()

    def __bool__(self) -> bool:
        return bool(self.waiting)

    @property
    def requests(self) -> list[ModelRequest]:
        """The waiting requests; one with many jobs counts once. Safe in any thread: `list` copies atomically."""
        return list({id(request): request for request in map(request_of, list(self.waiting))}.values())

    def add(self, request: GenerationRequest | BatchedCall) -> None:
        """Append a call, or each job of a generation request."""
        if isinstance(request, BatchedCall):
            self.waiting.append(request)
        else:
            self.waiting.extend(RequestJob(request, index) for index in sorted(request.unfinished))

    def schedule(self, budget: StepBudget) -> StepPlan:
        """Remove and return what comes next. Jobs never overtake: if one does not fit, those behind it wait too."""
        self.waiting = deque(entry for entry in self.waiting if not request_of(entry).is_cancelled)
        plan, later, is_full = StepPlan(), deque[RequestJob | BatchedCall](), False
        for entry in self.waiting:
            if isinstance(entry, BatchedCall):
                if not plan.try_merge(entry):
                    later.append(entry)
            elif is_full or not budget.try_admit(entry):
                is_full = True
                later.append(entry)
            else:
                plan.jobs.append(entry)
        self.waiting = later
        return plan

    def clear(self) -> list[ModelRequest]:
        """Empty the queue and return the requests that were waiting."""
        requests = self.requests
        self.waiting.clear()
        return requests


def request_of(entry: RequestJob | BatchedCall) -> ModelRequest:
    """Return the request that an entry of the queue belongs to."""
    return entry.request if isinstance(entry, RequestJob) else entry


def count_items(calls: Sequence[BatchedCall]) -> int:
    """Return the total number of items of these calls."""
    return sum(len(call.items) for call in calls)


@dataclass(frozen=True)
class RequestUpdate:
    """What a step produced for one request; to be delivered on its event loop."""

    request: GenerationRequest
    chunks: Sequence[TextChunk] = ()
    is_done: bool = False
    error: BaseException | None = None

    def deliver(self) -> None:
        """Pass the chunks on, and the end if this is it."""
        for chunk in self.chunks:
            self.request.chunks.put_nowait(chunk)
        if self.is_done:
            self.request.finish(error=self.error)


class RunningBatch:
    """The jobs of one engine that share its steps."""

    def __init__(self, engine: "Engine") -> None:
        from sightline.decoding import ContinuousBatch  # with the first batch, not before: it loads torch

        self.engine = engine
        self.batch = ContinuousBatch(engine.step)
        self.jobs: dict[int, RequestJob] = {}
        """By the id of their search."""

    @property
    def requests(self) -> list[GenerationRequest]:
        """The requests that have a job here."""
        return list({id(job.request): job.request for job in self.jobs.values()}.values())

    def admit(self, jobs: Sequence[RequestJob]) -> None:
        """Prefill the prompts of these jobs together and add them to the batch."""
        created = [job for entry in jobs if (job := entry.request.jobs[entry.index]) is not None]
        state = self.engine.prefill([job.prompt for job in created])
        self.batch.add([job.search for job in created], state)
        self.jobs |= {id(job.search): entry for job, entry in zip(created, jobs, strict=True)}

    def drop(self, requests: Sequence[GenerationRequest]) -> None:
        """Remove requests that were cancelled or have failed."""
        dropped = {id(request) for request in requests}
        searches = [
            member.search for member in self.batch.members if id(self.jobs[id(member.search)].request) in dropped
        ]
        self.batch.remove(searches)
        for search in searches:
            del self.jobs[id(search)]

    def advance(self) -> list[RequestUpdate]:
        """Take one step for all jobs."""
        updates = [self._update_request(result) for result in self.batch.advance()]
        if failed := [update.request for update in updates if update.error is not None]:
            self.drop(failed)
        return [update for update in updates if update.chunks or update.is_done]

    def _update_request(self, result: "SearchUpdate") -> RequestUpdate:
        job = self.jobs[id(result.search)]
        request = job.request
        if result.is_done:
            del self.jobs[id(result.search)]
        if result.error is not None:
            request.cancel()  # its other texts are of no use alone
            return RequestUpdate(request, is_done=True, error=result.error)
        chunks = request.make_chunks(job.index, result.result, is_done=result.is_done)
        if result.is_done:
            request.unfinished.discard(job.index)
        return RequestUpdate(request, chunks, is_done=not request.unfinished)
