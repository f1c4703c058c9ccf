"""From an HTTP request to a loaded model: find it by its id, check limits, charge tokens, submit to the scheduler."""

import asyncio
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from starlette.requests import Request

from sightline.errors import RefusedError
from sightline.serving.http.app import charge
from sightline.serving.http.problem import Problem
from sightline.serving.http.settings import Limits, overloaded
from sightline.serving.scheduling.jobs import BatchedCall, BatchFunction, GenerationRequest
from sightline.serving.scheduling.scheduler import QueueFullError, Scheduler, StoppedError
from sightline.tasks.registry import task_of
from sightline.tasks.task import Task

if TYPE_CHECKING:
    from sightline.pipelines import Generation, GenerationJob, GenerativePipeline, Pipeline
    from sightline.pipelines.generation import JobGroup

MODEL_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
Result = TypeVar("Result")

NO_MODEL: dict[int | str, dict[str, Any]] = {
    404: {"description": "The server has no model with this id, or none for this endpoint."}
}
"""The additional response of every route that uses a model."""


class Endpoint(NamedTuple):
    """What a model does, and where."""

    does: str
    path: str


EMBEDDINGS = Endpoint("computes embeddings", "/v1/embeddings")
"""That of a model without a task; all others have it too."""


def generic_endpoint(task: Task) -> str:
    """Return the path at which any task is served by its own request fields."""
    return f"/tasks/{task.name}"


def endpoint_of(model: "Pipeline") -> Endpoint:
    """Return what a model does, and its endpoint: one that clients exist for, or the generic one."""
    task = task_of(model)
    return EMBEDDINGS if task is None else Endpoint(task.does, task.endpoint or generic_endpoint(task))


class LoadedModels:
    """The models by id. Requests give an id, never a path."""

    def __init__(self, models: "Mapping[str, Pipeline]") -> None:
        for name in models:
            if not MODEL_ID.fullmatch(name):
                raise RefusedError(
                    f"model id {name[:70]!r} is invalid: use up to 64 of a-z, 0-9, dot, hyphen, underscore"
                )
        self.models = dict(models)

    def get(self, name: str | None, *, path: str | None = None, task: Task | None = None) -> Any:
        """Return the pipeline with this id; without an id, the only one that suits.

        It must be used at this `path`, or be of this `task`; without either, any will do.
        """
        if name is None:
            return self._only(path, task)
        if name not in self.models:
            raise Problem(404, "model not found: GET /v1/models lists the models", code="model_not_found")
        model = self.models[name]
        if not suits(model, path, task):
            does, where = endpoint_of(model)
            raise Problem(400, f"model: this one {does}: use POST {where}", param="model", code="wrong_kind_of_model")
        return model

    def at(self, path: str) -> "dict[str, Pipeline]":
        """Return the models that are used at an endpoint, by id."""
        return {name: model for name, model in self.models.items() if suits(model, path, None)}

    def _only(self, path: str | None, task: Task | None) -> "Pipeline":
        found = [model for model in self.models.values() if suits(model, path, task)]
        if len(found) == 1:
            return found[0]
        if found:
            raise Problem(400, "model is required: several models support this", param="model", code="which_model")
        raise Problem(404, "no model of this server supports this: GET /v1/models lists them", code="model_not_found")


def suits(model: "Pipeline", path: str | None, task: Task | None) -> bool:
    """Tell whether a model is used at this path and is of this task; None: whatever it is."""
    return (path is None or endpoint_of(model).path == path) and (task is None or task_of(model) is task)


def model_id(folder: Path, taken: Mapping[str, object]) -> str:
    """Return an id for the model in a folder: the name of its run in plain characters, numbered if it is taken."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "model" else folder.name
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:58] or "model"
    candidates = [plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2))]
    return next(candidate for candidate in candidates if candidate not in taken)


DEFAULT_MAX_PROMPT_TOKENS = 4_096
"""For models without a maximum length: a prompt as long as a body may be would block the server."""
LONG_TEXT = 20_000
"""Characters from which on tokenizing would block the event loop noticeably."""


class Submitter:
    """Submits the work of endpoints to the scheduler."""

    def __init__(self, models: LoadedModels, scheduler: Scheduler, limits: Limits) -> None:
        self.models, self.scheduler, self.limits = models, scheduler, limits

    async def create_jobs(
        self, pipeline: "Pipeline", create: "Callable[[Any], GenerationJob | None]", texts: Sequence[Any], *, param: str
    ) -> "list[GenerationJob | None]":
        """Return the job of each text; refuse too many texts and too long ones."""
        self.check_inputs(texts, param=param)
        jobs = [await run_off_loop(create, text) for text in texts]
        for job in jobs:
            if job is not None:
                self.check_length(pipeline, len(job.ids), param=param)
        return jobs

    async def create_job_groups(
        self,
        pipeline: "GenerativePipeline",
        create: "Callable[[Any], JobGroup]",
        texts: Sequence[Any],
        *,
        param: str,
    ) -> "list[JobGroup]":
        """Return the jobs of each text, one for every sentence; refuse too many of them and too long ones."""
        self.check_inputs(texts, param=param)
        groups = []
        for text in texts:
            groups.append(await run_off_loop(create, text))
            n_jobs = sum(len(group.jobs) for group in groups)
            self.limits.check("inputs", n_jobs, param=param, what="sentences")
        for group in groups:
            for job in group.jobs:
                self.check_length(pipeline, len(job.ids), param=param)
        return groups

    async def generate_groups(
        self, request: Request, pipeline: "GenerativePipeline", groups: "Sequence[JobGroup]"
    ) -> "list[list[Generation]]":
        """Return the results of each text, best first; an empty list for a blank one."""
        await self.generate(request, pipeline, [job for group in groups for job in group.jobs]).results()
        results = []
        for group in groups:
            if not group.uses_model:
                results.append(group.build())
            else:  # in the thread of the models
                results += await self.call(object(), lambda several: [one.build() for one in several], [group])
        return results

    def generate(
        self,
        request: Request,
        pipeline: "GenerativePipeline",
        jobs: "Sequence[GenerationJob | None]",
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
        pipeline: "Pipeline",
        key: Hashable,
        function: BatchFunction,
        texts: Sequence[Any],
        *,
        param: str,
    ) -> tuple[list[Any], int]:
        """Charge the tokens of texts and call a function of the pipeline; return its results and the token count."""
        self.check_inputs(texts, param=param)
        counts = [
            await run_off_loop(lambda text: len(pipeline.tokenizer.encode(join_texts(text))), text) for text in texts
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

    def check_length(self, pipeline: "Pipeline", n_tokens: int, *, param: str, max_length: int | None = None) -> None:
        """Refuse more tokens than the model takes, or the server allows; `max_length` if not the pipeline's own."""
        allowed = self.limits.prompt_tokens or max_length or pipeline.max_length or DEFAULT_MAX_PROMPT_TOKENS
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


async def run_off_loop(function: Callable[[Any], Result], text: Any) -> Result:
    """Call a function on a text, in another thread if the text is long, to keep the event loop free."""
    if len(join_texts(text)) < LONG_TEXT:
        return function(text)
    return await asyncio.to_thread(function, text)


def join_texts(text: Any) -> str:
    """Return a text, a pair of texts, or a list of turns as one string."""
    return text if isinstance(text, str) else " ".join(text)
