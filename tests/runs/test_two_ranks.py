"""A run of two ranks, stopped and resumed, is the uninterrupted run, to the last bit."""

import json
import os
import signal
from pathlib import Path

import pytest
from safetensors.torch import load_file

from instants import MAY_FORK
from sightline.errors import RefusedError
from sightline.runs import train, training_run
from sightline.runs.folder import choose_folder
from sightline.training import loop
from sightline.training.checkpoint import STATE
from sightline.training.metrics import read_metrics
from sightline.training.report import SilentReporter
from training.ranks import run_two_ranks
from training.toy import digest

from .small import overrides, weights_of

LAST = 6
SETTINGS = {
    "model.dropout": 0.2,
    "training.max_steps": LAST,
    "training.gradient_accumulation": 2,
    "training.batch_tokens": 150,
    "training.ema_decay": 0.9,
    "training.log_every": 2,
    "training.validate_every": 4,
    "training.best_metric": "last",
}


def stop_at(update_number: int) -> None:
    """Let a signal come to this process just before one of its updates."""
    update, calls = loop.update, iter(range(1, 100))

    def instead(*args):
        if next(calls) == update_number:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(*args)

    loop.update = instead  # in a process of its own, which ends with its run


def run(folder: Path, out: Path, *, resume: bool = False, stop: int | None = None, expected: str = "steps") -> None:
    """Train with two ranks; the signal, if one is to come, comes to the second."""

    def work(index: int) -> None:
        if stop is not None and index == 1:
            stop_at(stop)
        reporter = SilentReporter()
        result = train("translation", chosen, out=out, resume=resume, reporter=reporter)
        assert result.stop_reason == expected
        assert reporter.warnings == []

    chosen = overrides(folder, "translation", **SETTINGS)
    run_two_ranks(work)


def outcome(out: Path) -> tuple[object, ...]:
    """Return the model, what the last checkpoint has, and the log, without what depends on time."""
    last = out / "checkpoints" / f"step-{LAST:08}"
    tensors = {path.name: digest(load_file(path).values()) for path in sorted(last.glob("*.safetensors"))}
    records = [
        {name: value for name, value in record.items() if name not in ("seconds", "tokens_per_second")}
        for record in read_metrics(out / "metrics.jsonl")
    ]
    entries = json.loads((last / STATE).read_text(encoding="utf-8"))
    ranks = [(rank["sums"], rank["random"]["torch"]) for rank in entries["ranks"]]
    assert len({generator for _, generator in ranks}) == 2
    return weights_of(out), tensors, entries["loop"], entries["metrics"], ranks, records


@MAY_FORK
def test_a_stopped_run_of_two_ranks_equals_one_that_is_not(tmp_path):
    """Dropout differs between ranks: each must draw on from where it was. A log line is due after the stop."""
    run(tmp_path, tmp_path / "whole")
    run(tmp_path, tmp_path / "parts", stop=3, expected="signal")
    run(tmp_path, tmp_path / "parts", resume=True)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


@MAY_FORK
def test_two_ranks_share_the_folder_that_the_main_one_chooses(tmp_path, monkeypatch):
    """The second looks when the first has long taken it; without care it would find the next one free."""
    monkeypatch.chdir(tmp_path)
    chosen = overrides(tmp_path, "translation", **SETTINGS | {"training.max_steps": 1})

    def work(index: int) -> None:
        def choose(*args, **kwargs):
            assert index == 0
            return choose_folder(*args, **kwargs)

        monkeypatch.setattr(training_run, "choose_folder", choose)
        assert train("translation", chosen).folder == Path("runs/translation")

    run_two_ranks(work)
    assert [path.name for path in Path("runs").iterdir() if not path.name.startswith(".")] == ["translation"]


@MAY_FORK
def test_two_ranks_are_both_refused_a_folder_that_holds_a_run(tmp_path):
    out = tmp_path / "taken"
    out.mkdir()
    (out / "run.json").write_text("{}", encoding="utf-8")

    def work(index: int) -> None:
        says = "already holds a run" if index == 0 else "the main process refused"
        with pytest.raises(RefusedError, match=says):
            train("translation", overrides(tmp_path, "translation", **SETTINGS), out=out)

    run_two_ranks(work)
