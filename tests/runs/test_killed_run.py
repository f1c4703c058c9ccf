"""Whole runs, killed (T1) and stopped by signals (T5), end as if nothing had happened.

At enumerated instants here; at random ones in `make slow`.
"""

import functools
import os
import random
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from instants import MAY_FORK, NthCall, Watch, exit_code_of, left_by_kills
from sightline.runs import train, training_run
from sightline.runs.folder import is_run
from sightline.training import loop
from sightline.training.checkpoint import list_checkpoints
from sightline.training.metrics import MetricsFile, read_metrics

from .small import overrides, weights_of

COMMITS = ("rename", "replace", "write")
"""Whatever becomes true on the disk does so by one of these: a file or folder gets its name, the log a line."""
OFTEN = {"training.checkpoint_every": 1, "model.dropout": 0.1, "training.gradient_accumulation": 2}
OFTEN |= {"training.ema_decay": 0.9, "training.batch_tokens": 150}
SURELY_KEPT = {"training.best_metric": "last"}
"""Whatever it has learned, a model that is validated is saved."""
KILLED = {**OFTEN, **SURELY_KEPT, "training.max_steps": 3, "training.validate_every": 2, "training.keep_checkpoints": 1}
STOPPED = {**OFTEN, **SURELY_KEPT, "training.max_steps": 8, "training.validate_every": 1}
LONG = {**OFTEN, "training.max_steps": 24, "training.validate_every": 7}
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
FAILED = 99
MAX_LIFETIME = 2.5
"""Seconds of the processor: some are killed while they prepare, most while they train."""


def go_on(chosen: dict[str, object], folder: Path, out: Path) -> int:
    """Begin the run, or go on with it, as a person would after a crash; return the exit code."""
    return train("translation", overrides(folder, "translation", **chosen), out=out, resume=is_run(out)).exit_code


def outcome(out: Path) -> tuple[str, list[dict]]:
    """Return the weights of the best model and the log, without what depends on time."""
    records = [
        {k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")}
        for r in read_metrics(out / "metrics.jsonl")
    ]
    return weights_of(out), records


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return what comes of a run that nobody disturbs."""

    @functools.cache
    def outcome_of(max_steps: int) -> tuple[str, list[dict]]:
        chosen = next(one for one in (KILLED, STOPPED, LONG) if one["training.max_steps"] == max_steps)
        folder = tmp_path_factory.mktemp("undisturbed")
        assert go_on(chosen, folder, folder / "run") == 0
        return outcome(folder / "run")

    return lambda chosen: outcome_of(chosen["training.max_steps"])


def test_a_run_killed_at_any_instant_goes_on_without_a_human_act(tmp_path, undisturbed):
    """Before each thing that becomes true on the disk: encodings, record, lines of the log, models, checkpoints."""
    place = tmp_path / "runs"
    left = left_by_kills(lambda: go_on(KILLED, tmp_path, place / "run"), place, tmp_path, calls=COMMITS, files=False)
    kinds = set()
    for runs in left:
        out = runs / "run"
        kinds.add((is_run(out), (out / "model").exists(), len(list_checkpoints(out / "checkpoints"))))
        kinds |= {path.name for path in out.rglob("*.tmp-new") if path.is_dir()}
        assert go_on(KILLED, tmp_path, out) == 0
        assert outcome(out) == undisturbed(KILLED)
        assert not list(out.rglob("*.tmp-*"))
    assert {(False, False, 0), (True, False, 0), (True, False, 1), (True, True, 1), (True, True, 2)} <= kinds
    assert {"model.tmp-new", "step-00000001.tmp-new", "step-00000003.tmp-new"} <= kinds


@MAY_FORK
@pytest.mark.parametrize("n", [2, 12])
def test_a_run_whose_process_is_killed_goes_on_without_a_human_act(n, tmp_path, undisturbed):
    """The test above kills nobody; here a child is gone, before or after its run has begun, and its lock with it."""

    def die() -> None:
        with pytest.MonkeyPatch.context() as patch:
            kill = NthCall(n, lambda: os.kill(os.getpid(), signal.SIGKILL))
            Watch(patch, kill, calls=COMMITS, files=False)
            go_on(KILLED, tmp_path, tmp_path / "run")

    assert exit_code_of(die) == -signal.SIGKILL
    assert is_run(tmp_path / "run") == (n == 12)
    assert go_on(KILLED, tmp_path, tmp_path / "run") == 0
    assert outcome(tmp_path / "run") == undisturbed(KILLED)


@contextmanager
def signal_at(place: tuple[object, str], number: int) -> Iterator[None]:
    """Let a signal come when something is first called."""
    owner, name = place
    call, numbers = getattr(owner, name), [number]

    def instead(*args, **kwargs):
        if numbers:
            os.kill(os.getpid(), numbers.pop())
        return call(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, instead)
        yield


PLACES = {
    "a batch": (loop, "forward_backward"),
    "an update": (loop, "update"),
    "a line of the log": (MetricsFile, "append"),
    "a validation": (loop, "validate"),
    "the saving of the model": (training_run, "save_model"),
    "the saving of a checkpoint": (loop, "save_checkpoint"),
}


def test_a_run_stopped_by_signals_wherever_it_is_saves_and_goes_on(tmp_path, undisturbed):
    """It is stopped again and again, each time somewhere else, and by another signal."""
    out = tmp_path / "run"
    for place, (number, code) in zip(PLACES.values(), [*CODES.items()] * 2, strict=True):
        with signal_at(place, number):
            assert go_on(STOPPED, tmp_path, out) == code
    assert go_on(STOPPED, tmp_path, out) == 0
    assert outcome(out) == undisturbed(STOPPED)


@MAY_FORK
def test_a_signal_before_there_is_anything_to_save_ends_the_process(tmp_path, undisturbed):
    """As it always does: what has been prepared so far is no obstacle to the next attempt."""

    def stop() -> None:
        with signal_at((training_run, "write_run_record"), signal.SIGTERM):
            go_on(KILLED, tmp_path, tmp_path / "run")

    assert exit_code_of(stop) == -signal.SIGTERM
    assert go_on(KILLED, tmp_path, tmp_path / "run") == 0
    assert outcome(tmp_path / "run") == undisturbed(KILLED)


def leave_with(folder: Path, out: Path) -> None:
    """Go on and leave the child, whatever happens."""
    try:
        os._exit(go_on(LONG, folder, out))
    except KeyboardInterrupt:  # before there is anything to save
        os._exit(130)
    except BaseException:
        traceback.print_exc()
        os._exit(FAILED)


def child_killed_after(seconds: float, folder: Path, out: Path) -> bool:
    """Run in a child that dies after some time of the processor; tell whether it had not finished."""

    def work() -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no handler: gone at once, as with kill -9
        signal.setitimer(signal.ITIMER_PROF, seconds)
        leave_with(folder, out)

    code = exit_code_of(work)
    assert code in (0, -signal.SIGPROF)
    return code != 0


def child_stopped_after(seconds: float, number: int, folder: Path, out: Path) -> int:
    """Run in a child that gets a signal after some time of the processor; return how it ended."""

    def work() -> None:
        signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), number))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        leave_with(folder, out)

    return exit_code_of(work)


@MAY_FORK
@pytest.mark.slow
def test_a_hundred_kills(tmp_path, undisturbed):
    lives, kills, runs = random.Random(3), 0, 0  # noqa: S311
    while kills < 100:
        out = tmp_path / f"run-{runs}"
        while kills < 100 and child_killed_after(lives.uniform(0.1, MAX_LIFETIME), tmp_path, out):
            kills += 1
        assert go_on(LONG, tmp_path, out) == 0
        assert outcome(out) == undisturbed(LONG)
        assert not list(out.rglob("*.tmp-*"))
        runs += 1


@MAY_FORK
@pytest.mark.slow
def test_fifty_signals(tmp_path, undisturbed):
    lives, signals, runs = random.Random(4), 0, 0  # noqa: S311
    while signals < 50:
        out = tmp_path / f"run-{runs}"
        while signals < 50:
            number = lives.choice(list(CODES))
            code = child_stopped_after(lives.uniform(0.1, MAX_LIFETIME), number, tmp_path, out)
            if code == 0:
                break
            # Before the run has begun there is nothing to save: the signal then ends the process as it always does.
            assert code in (CODES[number], -number), code
            signals += 1
        assert go_on(LONG, tmp_path, out) == 0
        assert outcome(out) == undisturbed(LONG)
        runs += 1
