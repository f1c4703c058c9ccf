"""A run that is killed or stopped again and again ends as if nothing had happened: T1 and T5, small."""

import os
import random
import signal
from pathlib import Path

import pytest

from sightline.training.checkpoint import resume, save
from sightline.training.lock import locked
from sightline.training.rotation import checkpoints
from sightline.training.signals import stop_on_signals

from .toy import SETTINGS, fingerprint, new_state, train

MAY_FORK = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
N_BATCHES = 60
N_KILLS = 10
SHORTEST_LIFE, LONGEST_LIFE = 0.02, 0.2


def run(folder: Path, *, n_batches: int) -> None:
    """Go on with the run until so many batches are read, a checkpoint after each, as a process of its own would."""
    with locked(folder):
        state = new_state(seed=9)
        if resume(state, folder) is None:
            state = new_state()  # the first start of all
        while batches_read(state) < n_batches:
            train(state, SETTINGS, n_batches=1)
            save(state, folder, keep_last=2)


def run_until_stopped(folder: Path, report: int) -> int:
    """Go on with the run until a signal asks to stop, then save; return the exit code."""
    with locked(folder), stop_on_signals() as request:
        state = new_state()
        resume(state, folder)
        while not request:
            os.write(report, b".")
            train(state, SETTINGS, n_batches=1)
        save(state, folder, keep_last=2)
        return request.exit_code


def batches_read(state) -> int:
    return state.progress.step * SETTINGS.accumulate + state.progress.accumulated


def run_and_be_killed(folder: Path, *, after: float) -> int:
    """Run in a child that the system kills after a time, whatever it is doing; return the signal it died of."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no handler: the process is gone at once, as with kill -9
        signal.setitimer(signal.ITIMER_PROF, after)  # of the processor's time, so that a busy machine changes nothing
        run(folder, n_batches=N_BATCHES - 1)
        while True:  # uses the rest of its time
            pass
    return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def stop_after(n_batches: int, folder: Path, number: int) -> int:
    """Run in a child that gets a signal while it works on its n-th batch; return how it ended."""
    reports, report = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(run_until_stopped(folder, report))
    os.close(report)  # or a child that fails would be waited for for ever
    for _ in range(n_batches):
        assert os.read(reports, 1)
    os.kill(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reports)
    return code


@MAY_FORK
def test_killed_run_ends_as_the_undisturbed_one(tmp_path):
    whole = new_state()
    train(whole, SETTINGS, n_batches=N_BATCHES)
    lives = random.Random(2)  # noqa: S311
    for _ in range(N_KILLS):
        assert run_and_be_killed(tmp_path, after=lives.uniform(SHORTEST_LIFE, LONGEST_LIFE)) == signal.SIGPROF
    assert checkpoints(tmp_path)
    run(tmp_path, n_batches=N_BATCHES)
    state = new_state(seed=9)
    resume(state, tmp_path)
    assert fingerprint(state) == fingerprint(whole)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


@MAY_FORK
def test_stopped_run_saves_and_ends_as_the_undisturbed_one(tmp_path):
    """Signals come at any place of an accumulation; no batch is lost or read twice."""
    lives = random.Random(3)  # noqa: S311
    for number, code in [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)] * 2:
        assert stop_after(lives.randint(1, 5), tmp_path, number) == code
    run(tmp_path, n_batches=N_BATCHES)
    state, whole = new_state(), new_state()
    train(whole, SETTINGS, n_batches=N_BATCHES)
    resume(state, tmp_path)
    assert fingerprint(state) == fingerprint(whole)
