"""A run that is killed or stopped again and again ends as if nothing had happened: T1 and T5, small.

At enumerated instants here; at random ones in `make slow`.
"""

import os
import random
import signal
from pathlib import Path

import pytest

from instants import MAY_FORK, exit_code_of
from sightline.runtime import stop_on_signals
from sightline.storage import lock_run
from sightline.training.checkpoint import list_checkpoints, resume, save_checkpoint

from .toy import SETTINGS, fingerprint, new_state, train

N_BATCHES = 60
N_KILLS = 10
MIN_LIFETIME, MAX_LIFETIME = 0.02, 0.2
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


def run(folder: Path, *, n_batches: int) -> None:
    """Go on with the run until so many batches are read, a checkpoint after each, as a process of its own would."""
    with lock_run(folder):
        state = new_state(seed=9)
        if resume(state, folder) is None:
            state = new_state()  # the first start of all
        while batches_read(state) < n_batches:
            train(state, SETTINGS, n_batches=1)
            save_checkpoint(state, folder, keep_checkpoints=2)


def run_until_stopped(folder: Path, number: int, *, after: int) -> int:
    """Go on with the run, in which a signal comes after so many batches; save, and return the exit code."""
    with lock_run(folder), stop_on_signals() as request:
        state = new_state()
        resume(state, folder)
        while not request:
            train(state, SETTINGS, n_batches=1)
            after -= 1
            if after == 0:
                os.kill(os.getpid(), number)
        save_checkpoint(state, folder, keep_checkpoints=2)
        return request.exit_code


def batches_read(state) -> int:
    return state.progress.step * SETTINGS.gradient_accumulation + state.progress.accumulated


def assert_ended_as_the_undisturbed_run(folder: Path, *, n_batches: int) -> None:
    whole = new_state()
    train(whole, SETTINGS, n_batches=n_batches)
    state = new_state(seed=9)
    resume(state, folder)
    assert fingerprint(state) == fingerprint(whole)


@MAY_FORK
def test_run_whose_process_is_killed_ends_as_the_undisturbed_one(tmp_path):
    """After two updates and a batch, after one batch more, and after none: the lock of the dead holds nobody up."""
    for n_batches in (7, 8, 8):

        def die(n_batches: int = n_batches) -> None:
            run(tmp_path, n_batches=n_batches)
            with lock_run(tmp_path):
                os.kill(os.getpid(), signal.SIGKILL)

        assert exit_code_of(die) == -signal.SIGKILL
    run(tmp_path, n_batches=12)
    assert_ended_as_the_undisturbed_run(tmp_path, n_batches=12)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_stopped_run_saves_and_ends_as_the_undisturbed_one(tmp_path):
    """Signals come at any place of an accumulation; no batch is lost or read twice."""
    for after, (number, code) in zip((1, 3, 2, 5, 4, 1), [*CODES.items()] * 2, strict=True):
        assert run_until_stopped(tmp_path, number, after=after) == code
    run(tmp_path, n_batches=20)
    assert_ended_as_the_undisturbed_run(tmp_path, n_batches=20)


def run_and_be_killed(folder: Path, *, after: float) -> int:
    """Run in a child that the system kills after a time, whatever it is doing; return the signal it died of."""

    def work() -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no handler: the process is gone at once, as with kill -9
        signal.setitimer(signal.ITIMER_PROF, after)  # of the processor's time, so that a busy machine changes nothing
        run(folder, n_batches=N_BATCHES - 1)
        while True:  # uses the rest of its time
            pass

    return -exit_code_of(work)


@MAY_FORK
@pytest.mark.slow
def test_run_killed_at_random_instants_ends_as_the_undisturbed_one(tmp_path):
    lives = random.Random(2)  # noqa: S311
    for _ in range(N_KILLS):
        assert run_and_be_killed(tmp_path, after=lives.uniform(MIN_LIFETIME, MAX_LIFETIME)) == signal.SIGPROF
    assert list_checkpoints(tmp_path)
    run(tmp_path, n_batches=N_BATCHES)
    assert_ended_as_the_undisturbed_run(tmp_path, n_batches=N_BATCHES)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
