"""The running batch of one model: jobs of several requests that share its steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.decoding import ContinuousBatch, SearchUpdate
from sightline.pipelines import GenerativePipeline
from sightline.serving.model_requests import GenerationRequest, TextChunk


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
        return len(job.ids) if job else 0


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
    """The jobs of one pipeline that share its steps."""

    def __init__(self, pipeline: GenerativePipeline) -> None:
        self.pipeline = pipeline
        self.batch = ContinuousBatch(pipeline.step)
        self.jobs: dict[int, RequestJob] = {}
        """By the id of their search."""

    @property
    def requests(self) -> list[GenerationRequest]:
        """The requests that have a job here."""
        return list({id(job.request): job.request for job in self.jobs.values()}.values())

    def admit(self, jobs: Sequence[RequestJob]) -> None:
        """Prefill the prompts of these jobs together and add them to the batch."""
        created = [job for entry in jobs if (job := entry.request.jobs[entry.index]) is not None]
        with self.pipeline.inference_mode():
            state = self.pipeline.prefill([job.ids for job in created])
            self.batch.add([job.search for job in created], state)
        self.jobs |= {id(job.search): entry for job, entry in zip(created, jobs, strict=True)}

    def drop(self, requests: Sequence[GenerationRequest]) -> None:
        """Remove requests that were cancelled or have failed."""
        dropped = {id(request) for request in requests}
        searches = [
            member.search for member in self.batch.members if id(self.jobs[id(member.search)].request) in dropped
        ]
        with self.pipeline.inference_mode():
            self.batch.remove(searches)
        for search in searches:
            del self.jobs[id(search)]

    def advance(self) -> list[RequestUpdate]:
        """Take one step for all jobs."""
        with self.pipeline.inference_mode():
            results = self.batch.advance()
        updates = [self._update_request(result) for result in results]
        if failed := [update.request for update in updates if update.error is not None]:
            self.drop(failed)
        return [update for update in updates if update.chunks or update.is_done]

    def _update_request(self, result: SearchUpdate) -> RequestUpdate:
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
