"""From an HTTP request to a request to a model: check limits, charge tokens, submit to the scheduler."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from sightline.pipelines import GenerationJob, GenerativePipeline, Pipeline
from sightline.serving.api.loaded_models import LoadedModels
from sightline.serving.app import charge
from sightline.serving.limits import Limits, overloaded
from sightline.serving.model_requests import BatchedCall, BatchFunction, GenerationRequest
from sightline.serving.problem import Problem
from sightline.serving.scheduler import QueueFullError, Scheduler, StoppedError

DEFAULT_MAX_PROMPT_TOKENS = 4_096
"""For models without a maximum length: a prompt as long as a body may be would block the server."""
LONG_TEXT = 20_000
"""Characters from which on tokenizing would block the event loop noticeably."""

Made = TypeVar("Made")


class Submitter:
    """Submits the work of endpoints to the scheduler."""

    def __init__(self, models: LoadedModels, scheduler: Scheduler, limits: Limits) -> None:
        self.models, self.scheduler, self.limits = models, scheduler, limits

    async def create_jobs(
        self, pipeline: Pipeline, create: Callable[[Any], GenerationJob | None], texts: Sequence[Any], *, param: str
    ) -> list[GenerationJob | None]:
        """Return the job of each text; refuse too many texts and too long ones."""
        self.check_inputs(texts, param=param)
        jobs = [await run_off_loop(create, text) for text in texts]
        for job in jobs:
            if job is not None:
                self.check_length(pipeline, len(job.ids), param=param)
        return jobs

    def generate(
        self,
        request: Request,
        pipeline: GenerativePipeline,
        jobs: Sequence[GenerationJob | None],
        *,
        streams: bool = False,
    ) -> GenerationRequest:
        """Charge the prompt tokens and the maximum of new tokens, and submit the jobs."""
        charge(request, sum(len(job.ids) + job.max_tokens for job in jobs if job is not None))
        generation = GenerationRequest(pipeline, jobs, streams=streams)
        self._submit(generation)
        return generation

    async def call(self, key: Hashable, function: BatchFunction, items: Sequence[Any]) -> list[Any]:
        """Return a function's result for each item, computed together with waiting calls of the same key."""
        call = BatchedCall(key, function, items)
        self._submit(call)
        return await call.results()

    async def call_on_texts(
        self,
        request: Request,
        pipeline: Pipeline,
        key: Hashable,
        function: BatchFunction,
        texts: Sequence[Any],
        *,
        param: str,
    ) -> tuple[list[Any], int]:
        """Charge the tokens of texts and call a function of the pipeline; return its results and the token count."""
        self.check_inputs(texts, param=param)
        counts = [
            await run_off_loop(lambda text: len(pipeline.tokenizer.encode(plain_text(text))), text) for text in texts
        ]
        for count in counts:
            self.check_length(pipeline, count, param=param)
        charge(request, sum(counts))
        return await self.call((id(pipeline), key), function, texts), sum(counts)

    def check_capacity(self) -> None:
        """Refuse while the queue is full; needs nothing of the request to be read."""
        if self.scheduler.is_full:
            raise overloaded(self.limits, retry_after=self.scheduler.estimate_wait())

    def check_inputs(self, texts: Sequence[object], *, param: str) -> None:
        """Refuse no texts, and too many."""
        if not texts:
            raise Problem(400, f"{param} is empty: give at least one text", param=param, code="invalid_value")
        self.limits.check("inputs", len(texts), param=param)

    def check_length(self, pipeline: Pipeline, n_tokens: int, *, param: str) -> None:
        """Refuse more tokens than the model takes, or the server allows."""
        allowed = self.limits.prompt_tokens or pipeline.max_length or DEFAULT_MAX_PROMPT_TOKENS
        if n_tokens > allowed:
            raise self.limits.exceeded("prompt_tokens", n_tokens, param=param, allowed=allowed)

    def _submit(self, model_request: GenerationRequest | BatchedCall) -> None:
        if (task := asyncio.current_task()) is not None:  # a stream may end before anyone began to read it
            task.add_done_callback(lambda _: model_request.cancel())
        try:
            self.scheduler.submit(model_request)
        except QueueFullError as full:
            raise overloaded(self.limits, retry_after=full.retry_after) from None
        except StoppedError:
            raise Problem(503, "the server is shutting down", code="stopping", retry_after=5) from None


async def run_off_loop(function: Callable[[Any], Made], text: Any) -> Made:
    """Call a function on a text, in another thread if the text is long, to keep the event loop free."""
    if len(plain_text(text)) < LONG_TEXT:
        return function(text)
    return await asyncio.to_thread(function, text)


def plain_text(text: Any) -> str:
    """Return a text, a pair of texts, or a list of turns as one string."""
    return text if isinstance(text, str) else " ".join(text)
