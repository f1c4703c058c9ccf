"""One thread in which all models of a server work: who is let in, who has left, who is told what.

The event loop hands errands over and goes on answering; the thread takes them in the order of their coming. Texts to be
written join the running batch of their model at its next step, as long as it has rows free; calls are done between two
steps. More errands than `most_waiting` are refused at once: a queue that grows only makes everyone wait in vain.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sightline.errors import SightlineError
from sightline.runtime import use_threads
from sightline.serving.running import Entry, News, Running
from sightline.serving.work import Call, Errand, Work
from sightline.serving.work_queue import Room, WorkQueue

LOG = logging.getLogger(__name__)


class FullError(SightlineError):
    """So many wait already that one more would only wait in vain."""

    def __init__(self, n_waiting: int, seconds: int) -> None:
        super().__init__(f"{n_waiting} requests are waiting already: try again in {seconds} s")
        self.seconds = seconds


class StoppedError(SightlineError):
    """The server is being stopped."""

    def __init__(self) -> None:
        super().__init__("the server is being stopped")


@dataclass
class Counts:
    """What has been done, and what is being done."""

    steps: int = 0
    """Steps that models have taken."""
    tokens: int = 0
    """Tokens that were chosen: the rows of those steps."""
    rows: int = 0
    """Texts being written now."""
    settled: int = 0
    """Errands that are done, or have failed."""
    busy_seconds: float = 0.0


class Scheduler:
    """Lets models work for many at once."""

    def __init__(self, *, most_rows: int = 64, most_waiting: int = 64, threads: int | None = None) -> None:
        """`threads` are those that models compute with, if that is for the scheduler to say."""
        self.most_rows, self.most_waiting, self.threads = most_rows, most_waiting, threads
        self.counts = Counts()
        self._queue = WorkQueue()
        self._running: dict[int, Running] = {}
        """By the identity of the pipeline that writes."""
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._live, name="sightline-models", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Fail what is not done, and end the thread."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def submit(self, errand: Work | Call) -> None:
        """Take an errand in, or refuse it (FullError, StoppedError). Called on its event loop."""
        with self._changed:
            if self._is_stopping:
                raise StoppedError
            if self.is_full:
                raise FullError(self.n_waiting, self.seconds_to_wait())
            self._queue.add(errand)
            self._changed.notify()
        if isinstance(errand, Work) and not errand.open:
            errand.settle()  # there is nothing to be written

    @property
    def n_waiting(self) -> int:
        """Errands that are not begun."""
        return len(self._queue.errands)

    @property
    def is_full(self) -> bool:
        """Whether one more would be refused; an errand has one place at least, which is quicker to see."""
        return len(self._queue.places) >= self.most_waiting and self.n_waiting >= self.most_waiting

    def seconds_to_wait(self) -> int:
        """Return when it is worth trying again: once those who wait now will have been served."""
        each = self.counts.busy_seconds / max(1, self.counts.settled)
        return max(1, min(60, round(each * self.n_waiting)))

    def _live(self) -> None:
        """Work until stopped; what goes wrong with one errand, or one model, ends nothing else."""
        if self.threads is not None:
            use_threads(self.threads)
        while not self._is_stopping:
            with self._changed:
                while not (self._queue or self._running or self._is_stopping):
                    self._changed.wait()
            begun = time.perf_counter()
            try:
                self._work()
            except Exception as error:
                LOG.exception("the models had to be stopped")
                self._fail(self._everyone(), error)
            self.counts.busy_seconds += time.perf_counter() - begun
        self._fail(self._everyone(), StoppedError())

    def _work(self) -> None:
        """Do what there is to do until the next step, and take it."""
        self._drop_cancelled()
        rows = sum(running.together.n_rows for running in self._running.values())
        with self._changed:
            found = self._queue.take(Room(self.most_rows - rows, is_empty=not self._running))
        if found.calls:
            self._call(found.calls)
        self._admit(found.entries)
        self._advance()

    def _drop_cancelled(self) -> None:
        """Stop writing for those who left."""
        for running in self._running.values():
            if left := [work for work in running.works if work.is_cancelled]:
                running.drop(left)
        self._running = {key: running for key, running in self._running.items() if running.entries}
        self.counts.rows = sum(running.together.n_rows for running in self._running.values())

    def _admit(self, entries: Sequence[Entry]) -> None:
        """Let tasks join the running batch of their model."""
        by_author: dict[int, list[Entry]] = {}
        for entry in entries:
            by_author.setdefault(id(entry.work.author), []).append(entry)
        for key, own in by_author.items():
            running = self._running.get(key) or Running(own[0].work.author)
            try:
                running.admit(own)
            except Exception as error:
                self._fail((entry.work for entry in own), error)
            if running.entries:
                self._running[key] = running

    def _advance(self) -> None:
        """Take a step with every model that is writing."""
        news: list[News] = []
        for key, running in list(self._running.items()):
            self.counts.steps += 1
            self.counts.tokens += running.together.n_rows
            try:
                news += running.advance()
            except Exception as error:
                self._fail(running.works, error)
                running.entries.clear()
            if not running.entries:
                del self._running[key]
        self.counts.rows = sum(running.together.n_rows for running in self._running.values())
        self.counts.settled += sum(one.is_done for one in news)
        tell(news)

    def _call(self, calls: Sequence[Call]) -> None:
        """Do calls of one kind in one go; if that goes wrong, one by one, so that each bears its own fault."""
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
            call.loop.call_soon_threadsafe(call.settle, own)
        self.counts.settled += len(calls)

    def _everyone(self) -> list[Errand]:
        """Return all errands that are not done, and forget them."""
        errands: list[Errand] = [work for running in self._running.values() for work in running.works]
        self._running.clear()
        with self._changed:
            return [*errands, *self._queue.clear()]

    def _fail(self, errands: Iterable[Errand], error: BaseException) -> None:
        """Tell those who wait that it went wrong; what else they asked for is not done any more."""
        for errand in {id(errand): errand for errand in errands}.values():
            errand.cancel()
            self.counts.settled += 1
            if not errand.loop.is_closed():
                errand.loop.call_soon_threadsafe(partial(errand.settle, error=error))


def tell(news: Sequence[News]) -> None:
    """Pass on what a step brought, in one go for each event loop."""
    by_loop: dict[int, list[News]] = {}
    for one in news:
        by_loop.setdefault(id(one.work.loop), []).append(one)
    for several in by_loop.values():
        several[0].work.loop.call_soon_threadsafe(tell_all, several)


def tell_all(news: Sequence[News]) -> None:
    """Tell everyone (on the event loop)."""
    for one in news:
        one.tell()
