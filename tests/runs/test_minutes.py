"""Runs with a limit in minutes and a number of threads, from the recipe to run.json and back."""

import itertools
import json
from functools import partial

import pytest

from sightline.errors import ModelFileError
from sightline.runs import train, training_run
from sightline.runs.training_run import resolve_recipe
from sightline.training.estimate import Estimate
from sightline.training.metrics import METRICS, read_metrics
from sightline.training.report import SilentReporter
from sightline.training.time_budget import Stopwatch

from .small import overrides, weights_of

LENGTHS = ("training.max_steps", "training.validate_every", "training.checkpoint_every", "training.log_every")


@pytest.fixture
def hurried(monkeypatch):
    """Let a run take two seconds whenever it looks at the clock, after a trial that promised an update a second."""
    reads = itertools.count()
    monkeypatch.setattr(training_run, "Stopwatch", partial(Stopwatch, clock=lambda: 2.0 * next(reads)))
    monkeypatch.setattr(training_run, "run_trial", lambda run: Estimate(1000, None, 1.0, 100.0))


def timed(tmp_path, minutes: float, **more):
    wanted = overrides(tmp_path, "translation")
    return {name: value for name, value in wanted.items() if name not in LENGTHS} | {
        "training.max_minutes": minutes,
        **more,
    }


def record_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_minutes_decide_the_number_of_updates(hurried, tmp_path):
    reporter = SilentReporter()
    result = train("translation", timed(tmp_path, 2), out=tmp_path / "run", reporter=reporter)
    record = record_of(result.folder)
    assert result.stop_reason == "minutes"
    assert record["resolved"]["training"]["max_steps"] == record["plans"][0]["total_steps"] == 119
    assert record["outcome"]["progress"]["step"] == record["plans"][-1]["total_steps"] < 60
    rates = [entry["learning_rate"] for entry in read_metrics(result.folder / METRICS) if "loss" in entry]
    assert rates[-1] < max(rates) / 4
    assert any("about 119 updates in at most 2 min" in message for message in reporter.messages)
    assert "reached the time limit" in " ".join(reporter.messages)


def test_more_minutes_continue_a_finished_run(hurried, tmp_path):
    first = train("translation", timed(tmp_path, 1), out=tmp_path / "run")
    before = record_of(first.folder)
    train(None, {"training.max_minutes": 3}, out=tmp_path / "run", resume=True)
    after = record_of(first.folder)
    assert after["plans"][: len(before["plans"])] == before["plans"]
    assert after["plans"][-1]["max_minutes"] == 3
    assert after["outcome"]["progress"]["step"] > before["outcome"]["progress"]["step"]
    kept = ("max_steps", "validate_every", "warmup_steps", "threads")
    training = [{name: record["resolved"]["training"][name] for name in kept} for record in (before, after)]
    assert training[0] == training[1]


def test_the_same_plans_give_the_same_model(hurried, tmp_path, monkeypatch):
    """Another run is given the plans of the first, and a clock that stands."""
    first = train("translation", timed(tmp_path, 1), out=tmp_path / "first")
    plans = training_run.read_plans(record_of(first.folder), first.folder)
    assert len(plans) > 1
    monkeypatch.setattr(training_run, "read_plans", lambda record, folder: plans)
    monkeypatch.setattr(training_run, "Stopwatch", partial(Stopwatch, clock=lambda: 0.0))
    given = record_of(first.folder)["resolved"]["training"]
    names = ("max_steps", "validate_every", "checkpoint_every", "log_every", "warmup_steps")
    same = {f"training.{name}": given[name] for name in names}
    second = train("translation", timed(tmp_path, 1, **same), out=tmp_path / "second")
    assert weights_of(second.folder) == weights_of(first.folder)


def test_spoiled_plans_are_refused_in_one_line(hurried, tmp_path):
    first = train("translation", timed(tmp_path, 1), out=tmp_path / "run")
    record = record_of(first.folder)
    record["plans"][0]["total_steps"] = "many"
    (first.folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match=r"run.json: has invalid plans: .*total_steps"):
        train(None, out=tmp_path / "run", resume=True)


def test_minutes_on_the_command_line_replace_the_length_of_the_recipe(tmp_path):
    recipe, _ = resolve_recipe("multi30k", {"training.max_minutes": 4}, tmp_path / "run", resume=False)
    assert not {"max_epochs", "max_steps", "warmup_steps"} & set(recipe.sections["training"])
    recipe, _ = resolve_recipe(
        "multi30k", {"training.max_minutes": 4, "training.max_epochs": 3}, tmp_path / "run", resume=False
    )
    assert recipe.sections["training"]["max_epochs"] == 3


def test_the_number_of_threads_is_recorded_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run.runtime, "set_num_threads", lambda count: None)
    monkeypatch.setattr(training_run.runtime, "choose_num_threads", lambda: 3)
    first = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "run")
    assert record_of(first.folder)["resolved"]["training"]["threads"] == 3
    monkeypatch.setattr(training_run.runtime, "choose_num_threads", lambda: 5)
    train(None, {"training.max_steps": 8}, out=tmp_path / "run", resume=True)
    assert record_of(first.folder)["resolved"]["training"]["threads"] == 3
