"""The queue of jobs and calls that wait for a model, first come, first served."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.serving.model_requests import BatchedCall, GenerationRequest, ModelRequest
from sightline.serving.running_batch import RequestJob

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
