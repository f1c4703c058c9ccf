"""The first signal asks, the second ends the process."""

import os
import signal
import threading

import pytest

from instants import MAY_FORK, exit_code_of
from sightline.training.signals import SIGNALS, stop_on_signals

EVERY_SIGNAL = pytest.mark.parametrize(("number", "code"), [(15, 143), (2, 130), (1, 129)])


@EVERY_SIGNAL
def test_first_signal_asks_to_stop(number, code):
    with stop_on_signals() as request:
        assert not request
        assert request.exit_code == 0
        os.kill(os.getpid(), number)
        assert request
        assert request.exit_code == code


@MAY_FORK
@EVERY_SIGNAL
def test_second_signal_ends_the_process_at_once(number, code):
    def run() -> None:
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), number)
            os._exit(7)

    assert exit_code_of(run) == code


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_handlers_are_put_back_after_a_failure():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyError), stop_on_signals():
        raise KeyError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_signal_that_is_ignored_stays_ignored():
    """A run under nohup survives the end of its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not request
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_may_train_without_signals():
    requests = []

    def run() -> None:
        with stop_on_signals() as request:
            requests.append(request)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not requests[0]
