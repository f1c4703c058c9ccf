"""The scheduler: one thread in which all models of a server run.

The event loop submits requests and keeps answering; the thread takes them first come, first served. Jobs join the
running batch of their model before its next step, as long as it has free rows; batched calls are made between two
steps. Requests beyond `max_waiting` are refused at once: a longer queue would only make every client wait in vain.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sightline.errors import SightlineError
from sightline.runtime import set_num_threads
from sightline.serving.scheduling.jobs import (
    BatchedCall,
    GenerationRequest,
    JobQueue,
    ModelRequest,
    RequestJob,
    RequestUpdate,
    RunningBatch,
    StepBudget,
)

LOG = logging.getLogger(__name__)


class QueueFullError(SightlineError):
    """The queue is full: one more request would only wait in vain."""

    def __init__(self, n_waiting: int, retry_after: int) -> None:
        super().__init__(f"the queue is full ({n_waiting} requests are waiting): try again in {retry_after} s")
        self.retry_after = retry_after


class StoppedError(SightlineError):
    """The server is shutting down."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")


@dataclass
class Counts:
    """What has been done, and what is running."""

    steps: int = 0
    """Model steps taken."""
    tokens: int = 0
    """Tokens generated: the rows of those steps."""
    rows: int = 0
    """Batch rows in use now."""
    finished: int = 0
    """Requests that are done or have failed."""
    busy_seconds: float = 0.0


class Scheduler:
    """Runs models for many requests at once."""

    def __init__(self, *, max_batch_size: int = 64, max_waiting: int = 64, threads: int | None = None) -> None:
        """`threads`: number of threads models compute with; None leaves it unchanged."""
        self.max_batch_size, self.max_waiting, self.threads = max_batch_size, max_waiting, threads
        self.counts = Counts()
        self._queue = JobQueue()
        self._running: dict[int, RunningBatch] = {}
        """By the id of the engine."""
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="sightline-models", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Fail unfinished requests and end the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, request: GenerationRequest | BatchedCall) -> None:
        """Queue a request, or refuse it (QueueFullError, StoppedError). Called on its event loop."""
        with self._changed:
            if self._is_stopping:
                raise StoppedError
            if self.is_full:
                raise QueueFullError(self.n_waiting, self.estimate_wait())
            self._queue.add(request)
            self._changed.notify()
        if isinstance(request, GenerationRequest) and not request.unfinished:
            request.finish()  # there is nothing to generate

    @property
    def n_waiting(self) -> int:
        """Number of requests that have not started."""
        return len(self._queue.requests)

    @property
    def is_full(self) -> bool:
        """Whether the next request would be refused. Counting entries first is cheap; a request has at least one."""
        return len(self._queue.waiting) >= self.max_waiting and self.n_waiting >= self.max_waiting

    def estimate_wait(self) -> int:
        """Return the seconds until those who wait now will have been served, from 1 to 60."""
        each = self.counts.busy_seconds / max(1, self.counts.finished)
        return max(1, min(60, round(each * self.n_waiting)))

    def _run(self) -> None:
        """Run until stopped; an error of one request or one model ends nothing else."""
        if self.threads is not None:
            set_num_threads(self.threads)
        while not self._is_stopping:
            with self._changed:
                while not (self._queue or self._running or self._is_stopping):
                    self._changed.wait()
            started = time.perf_counter()
            try:
                self._run_once()
            except Exception as error:
                LOG.exception("scheduler error: all requests failed")
                self._fail(self._remove_all(), error)
            self.counts.busy_seconds += time.perf_counter() - started
        self._fail(self._remove_all(), StoppedError())

    def _run_once(self) -> None:
        """Do what is due before the next step, and take it."""
        self._drop_cancelled()
        rows = sum(running.batch.n_rows for running in self._running.values())
        with self._changed:
            plan = self._queue.schedule(StepBudget(self.max_batch_size - rows, is_idle=not self._running))
        if plan.calls:
            self._call(plan.calls)
        self._admit(plan.jobs)
        self._advance()

    def _drop_cancelled(self) -> None:
        """Stop generating for clients that have left."""
        for running in self._running.values():
            if cancelled := [request for request in running.requests if request.is_cancelled]:
                running.drop(cancelled)
        self._running = {key: running for key, running in self._running.items() if running.jobs}
        self.counts.rows = sum(running.batch.n_rows for running in self._running.values())

    def _admit(self, jobs: Sequence[RequestJob]) -> None:
        """Add jobs to the running batch of their model."""
        by_engine: dict[int, list[RequestJob]] = {}
        for job in jobs:
            by_engine.setdefault(id(job.request.engine), []).append(job)
        for key, own in by_engine.items():
            running = self._running.get(key) or RunningBatch(own[0].request.engine)
            try:
                running.admit(own)
            except Exception as error:
                self._fail((job.request for job in own), error)
            if running.jobs:
                self._running[key] = running

    def _advance(self) -> None:
        """Take a step with every model that has a running batch."""
        updates: list[RequestUpdate] = []
        for key, running in list(self._running.items()):
            self.counts.steps += 1
            self.counts.tokens += running.batch.n_rows
            try:
                updates += running.advance()
            except Exception as error:
                self._fail(running.requests, error)
                running.jobs.clear()
            if not running.jobs:
                del self._running[key]
        self.counts.rows = sum(running.batch.n_rows for running in self._running.values())
        self.counts.finished += sum(update.is_done for update in updates)
        send_updates(updates)

    def _call(self, calls: Sequence[BatchedCall]) -> None:
        """Make calls of one key as one; if that fails, one by one, so that each gets its own error."""
        try:
            results = list(calls[0].function([item for call in calls for item in call.items]))
        except Exception as error:
            if len(calls) == 1:
                self._fail(calls, error)
            else:
                for call in calls:
                    self._call([call])
            return
        for call in calls:
            own, results = results[: len(call.items)], results[len(call.items) :]
            call.loop.call_soon_threadsafe(call.finish, own)
        self.counts.finished += len(calls)

    def _remove_all(self) -> list[ModelRequest]:
        """Remove and return all unfinished requests, running and waiting."""
        requests: list[ModelRequest] = [request for running in self._running.values() for request in running.requests]
        self._running.clear()
        with self._changed:
            return [*requests, *self._queue.clear()]

    def _fail(self, requests: Iterable[ModelRequest], error: BaseException) -> None:
        """End requests with an error; their other jobs are cancelled."""
        for request in {id(request): request for request in requests}.values():
            request.cancel()
            self.counts.finished += 1
            if not request.loop.is_closed():
                request.loop.call_soon_threadsafe(partial(request.finish, error=error))


def send_updates(updates: Sequence[RequestUpdate]) -> None:
    """Send updates to their event loops, one callback for each loop."""
    by_loop: dict[int, list[RequestUpdate]] = {}
    for update in updates:
        by_loop.setdefault(id(update.request.loop), []).append(update)
    for several in by_loop.values():
        several[0].request.loop.call_soon_threadsafe(deliver_all, several)


def deliver_all(updates: Sequence[RequestUpdate]) -> None:
    """Deliver updates (on the event loop)."""
    for update in updates:
        update.deliver()
