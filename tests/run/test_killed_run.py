"""Whole runs, killed (T1) and stopped by signals (T5) at random instants, end as if nothing had happened."""

import os
import random
import signal
import traceback
from pathlib import Path

import pytest

from sightline.run import train
from sightline.run.folder import is_run
from sightline.training.metrics import read

from .small import overrides, weights_of

MAY_FORK = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
OFTEN = {"training.max_steps": 24, "training.checkpoint_every": 1, "training.validate_every": 7, "model.dropout": 0.1}
OFTEN |= {"training.accumulate": 2, "training.average_decay": 0.9, "training.batch_tokens": 150}
FAILED = 99
LONGEST_LIFE = 2.5
"""Seconds of the processor: some are killed while they prepare, most while they train."""


def settings(folder: Path) -> dict[str, object]:
    return overrides(folder, "translation", **OFTEN)


def go_on(folder: Path, out: Path) -> int:
    """Begin the run, or go on with it, as a person would after a crash; return the exit code."""
    return train("translation", settings(folder), out=out, resume=is_run(out)).exit_code


def leave_with(folder: Path, out: Path) -> None:
    """Go on and leave the child, whatever happens."""
    try:
        os._exit(go_on(folder, out))
    except KeyboardInterrupt:  # before there is anything to save
        os._exit(130)
    except BaseException:
        traceback.print_exc()
        os._exit(FAILED)


def child_killed_after(seconds: float, folder: Path, out: Path) -> bool:
    """Run in a child that dies after some time of the processor; tell whether it had not finished."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no handler: gone at once, as with kill -9
        signal.setitimer(signal.ITIMER_PROF, seconds)
        leave_with(folder, out)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGPROF)
    return code != 0


def child_stopped_after(seconds: float, number: int, folder: Path, out: Path) -> int:
    """Run in a child that gets a signal after some time of the processor; return how it ended."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), number))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        leave_with(folder, out)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(out: Path) -> tuple[str, list[dict]]:
    """Return the weights of the best model and the log, without what depends on time."""
    records = [
        {k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")} for r in read(out / "metrics.jsonl")
    ]
    return weights_of(out), records


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    assert go_on(folder, folder / "run") == 0
    return outcome(folder / "run")


def killed(n: int, tmp_path: Path, whole, *, seed: int) -> None:
    lives, kills, runs = random.Random(seed), 0, 0  # noqa: S311
    while kills < n:
        out = tmp_path / f"run-{runs}"
        while kills < n and child_killed_after(lives.uniform(0.1, LONGEST_LIFE), tmp_path, out):
            kills += 1
        assert go_on(tmp_path, out) == 0
        assert outcome(out) == whole
        assert not list(out.rglob("*.tmp-*"))
        runs += 1


def stopped(n: int, tmp_path: Path, whole, *, seed: int) -> None:
    lives, signals, runs = random.Random(seed), 0, 0  # noqa: S311
    codes = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
    while signals < n:
        out = tmp_path / f"run-{runs}"
        while signals < n:
            number = lives.choice(list(codes))
            code = child_stopped_after(lives.uniform(0.1, LONGEST_LIFE), number, tmp_path, out)
            if code == 0:
                break
            # Before the run has begun there is nothing to save: the signal then ends the process as it always does.
            assert code in (codes[number], -number), code
            signals += 1
        assert go_on(tmp_path, out) == 0
        assert outcome(out) == whole
        runs += 1


@MAY_FORK
def test_a_killed_run_goes_on_without_a_human_act(tmp_path, whole):
    killed(4, tmp_path, whole, seed=1)


@MAY_FORK
def test_a_run_stopped_by_signals_saves_and_goes_on(tmp_path, whole):
    stopped(4, tmp_path, whole, seed=2)


@MAY_FORK
@pytest.mark.slow
def test_a_hundred_kills(tmp_path, whole):
    killed(100, tmp_path, whole, seed=3)


@MAY_FORK
@pytest.mark.slow
def test_fifty_signals(tmp_path, whole):
    stopped(50, tmp_path, whole, seed=4)
