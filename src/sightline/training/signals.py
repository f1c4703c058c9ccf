"""Signals that stop a run: the first one makes it save and stop, a second one ends the process at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = ("SIGTERM", "SIGINT", "SIGHUP")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


class StopRequest:
    """Whether a signal asked the run to stop; checked between batches."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - Python calls it with both
        """Store the first signal; exit at once on a second."""
        if self.signal is not None:
            os._exit(128 + number)  # not an exception: it could be caught in the middle of a save
        self.signal = number

    @property
    def exit_code(self) -> int:
        """Exit code as a shell reports the signal (143, 130, 129), 0 without one."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn signals into a stop request while the run lasts; restore the previous handlers afterwards.

    Ignored signals stay ignored (`nohup` ignores SIGHUP). Outside the main thread Python cannot handle signals: there
    is then never a request.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, request.handle) for number in handled}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
