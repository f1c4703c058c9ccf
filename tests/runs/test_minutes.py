"""Runs with a limit in minutes and a number of threads, from the recipe to run.json and back."""

import itertools
import json
from functools import partial

import pytest
import torch

from sightline.errors import ModelFileError
from sightline.runs import train, training_run
from sightline.runs.prepare import prepare
from sightline.runs.training_run import resolve_recipe
from sightline.runtime import Products
from sightline.training.distributed import Rank
from sightline.training.estimate import Estimate
from sightline.training.metrics import METRICS, read_metrics
from sightline.training.report import SilentReporter
from sightline.training.time_budget import Stopwatch, TimeBudget

from .small import overrides, weights_of

LENGTHS = ("training.max_steps", "training.validate_every", "training.checkpoint_every", "training.log_every")


@pytest.fixture
def hurried(monkeypatch):
    """Let a run take two seconds whenever it looks at the clock, after a trial that promised an update a second."""
    reads = itertools.count()
    monkeypatch.setattr(training_run, "Stopwatch", partial(Stopwatch, clock=lambda: 2.0 * next(reads)))
    monkeypatch.setattr(training_run, "run_trial", lambda run, products: Estimate(1000, None, 1.0, 100.0))


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


def test_a_run_killed_before_its_first_plan_can_be_resumed(hurried, tmp_path, monkeypatch):
    """Until the speed is known, nothing that follows from it may be taken for chosen."""

    def die(run, products):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training_run, "run_trial", die)
        with pytest.raises(KeyboardInterrupt):
            train("translation", timed(tmp_path, 2), out=tmp_path / "run")
    assert record_of(tmp_path / "run")["plans"] == []
    result = train(None, out=tmp_path / "run", resume=True)
    chosen = record_of(result.folder)["resolved"]["training"]
    assert chosen["max_steps"] == 119
    assert chosen["warmup_steps"] == 6
    assert chosen["validate_every"] == 59


RECIPE = """
task = "translation"
[training]
optimizer = "adamw"
schedule = "{schedule}"
learning_rate = 0.001
warmup_steps = 200
max_epochs = 3
"""


def test_a_recipe_file_resumes_with_the_minutes_it_was_started_with(hurried, tmp_path):
    (tmp_path / "mine.toml").write_text(RECIPE.format(schedule="linear"))
    train(tmp_path / "mine.toml", timed(tmp_path, 1), out=tmp_path / "run")
    before = record_of(tmp_path / "run")
    data = {name: value for name, value in timed(tmp_path, 1).items() if name != "training.max_minutes"}
    train(tmp_path / "mine.toml", {**data, "training.max_minutes": 2}, out=tmp_path / "run", resume=True)
    after = record_of(tmp_path / "run")
    assert after["resolved"]["training"]["warmup_steps"] == before["resolved"]["training"]["warmup_steps"] < 10
    assert after["outcome"]["progress"]["step"] > before["outcome"]["progress"]["step"]


def test_a_limit_set_at_the_start_holds_after_a_resume(hurried, tmp_path):
    train("translation", timed(tmp_path, 10, **{"training.max_steps": 20}), out=tmp_path / "run")
    assert record_of(tmp_path / "run")["outcome"]["stop_reason"] == "steps"
    train(None, {"training.max_minutes": 20}, out=tmp_path / "run", resume=True)
    assert record_of(tmp_path / "run")["outcome"]["progress"]["step"] == 20


def test_minutes_of_an_older_run_stay_a_mere_limit(hurried, tmp_path):
    """They were no plan: the schedule goes with the updates, to max_steps."""
    train("translation", timed(tmp_path, 60, **{"training.max_steps": 6}), out=tmp_path / "run")
    record = record_of(tmp_path / "run")
    del record["plans"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    train(None, {"training.max_steps": 9}, out=tmp_path / "run", resume=True)
    after = record_of(tmp_path / "run")
    assert "plans" not in after
    assert (after["outcome"]["stop_reason"], after["outcome"]["progress"]["step"]) == ("steps", 9)


def without_length(tmp_path):
    """Settings of a run whose warmup follows from its length, and that length."""
    return {name: value for name, value in overrides(tmp_path, "translation").items() if name not in LENGTHS}


def test_a_run_without_minutes_is_given_more_steps(tmp_path):
    """What was chosen at its start stays, also what followed from the length."""
    settings = {**without_length(tmp_path), "training.max_epochs": 0.5}
    before = record_of(train("translation", settings, out=tmp_path / "run").folder)
    train(None, {"training.max_epochs": 2}, out=tmp_path / "run", resume=True)
    after = record_of(tmp_path / "run")
    assert after["outcome"]["progress"]["step"] > before["outcome"]["progress"]["step"]
    assert after["resolved"]["training"]["warmup_steps"] == before["resolved"]["training"]["warmup_steps"]


def test_a_run_without_minutes_is_given_minutes(hurried, tmp_path):
    settings = {**without_length(tmp_path), "training.max_epochs": 0.5}
    before = record_of(train("translation", settings, out=tmp_path / "run").folder)
    settings = {"training.max_minutes": 2, "training.max_epochs": None}
    train(None, settings, out=tmp_path / "run", resume=True)
    after = record_of(tmp_path / "run")
    assert after["outcome"]["stop_reason"] == "minutes"
    assert after["outcome"]["progress"]["step"] > before["outcome"]["progress"]["step"]


def test_a_length_that_was_changed_in_the_recipe_file_holds_on_resume(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(RECIPE.format(schedule="linear").replace("warmup_steps = 200\nmax_epochs = 3", "max_steps = 4"))
    train(recipe, without_length(tmp_path), out=tmp_path / "run")
    recipe.write_text(recipe.read_text().replace("max_steps = 4", "max_steps = 7"))
    reporter = SilentReporter()
    train(recipe, without_length(tmp_path), out=tmp_path / "run", resume=True, reporter=reporter)
    assert record_of(tmp_path / "run")["outcome"]["progress"]["step"] == 7
    assert any("training.max_steps was 4 and is 7" in warning for warning in reporter.warnings)


def test_every_rank_decides_by_the_record_before_the_first_plan_is_in_it(tmp_path, monkeypatch):
    """The main rank goes on as soon as all have added their numbers, and writes its plan: others may be later."""

    class EarlyMain(Rank):
        index, world_size = 1, 2

        def sum(self, *values):
            record = record_of(tmp_path / "run")
            record["plans"] = [{"step": 0, "schedule_step": 0.0, "total_steps": 9, "seconds": 0.0, "max_minutes": 2.0}]
            (tmp_path / "run" / "run.json").write_text(json.dumps(record))
            return [1.0]

    def stop(self, *args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training_run, "run_trial", stop)
        with pytest.raises(KeyboardInterrupt):
            train("translation", timed(tmp_path, 2), out=tmp_path / "run")
    recipe, folder = resolve_recipe(None, {}, tmp_path / "run", resume=True)
    run = prepare(recipe, folder, rank=Rank(), resume=True, device=torch.device("cpu"))
    monkeypatch.setattr(TimeBudget, "begin", lambda *args, **options: None)
    run, budget = training_run.plan_run(run, folder, EarlyMain(), SilentReporter(), Products())
    assert budget.plans == []
    assert run.settings.max_steps == 119
    assert run.settings.warmup_steps == 6


@pytest.mark.parametrize(
    ("recipe", "values", "kept"),
    [
        ("multi30k", {"training.max_minutes": 4}, set()),
        ("multi30k", {"training.max_minutes": None}, {"max_epochs", "warmup_steps"}),
        ("multi30k", {"training.max_minutes": 4, "training.max_epochs": 3}, {"max_epochs", "warmup_steps"}),
        ("noam", {"training.max_minutes": 4}, {"warmup_steps"}),
    ],
)
def test_minutes_replace_the_length_of_a_recipe_and_nothing_else(recipe, values, kept, tmp_path):
    if recipe == "noam":
        recipe = tmp_path / "noam.toml"
        recipe.write_text(RECIPE.format(schedule="noam").replace("learning_rate = 0.001\n", ""))
    found, _ = resolve_recipe(recipe, values, tmp_path / "run", resume=False)
    assert {"max_epochs", "max_steps", "warmup_steps"} & set(found.sections["training"]) == kept


def test_the_number_of_threads_is_recorded_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run.runtime, "set_num_threads", lambda count: None)
    monkeypatch.setattr(training_run.runtime, "choose_num_threads", lambda: 3)
    first = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "run")
    assert record_of(first.folder)["resolved"]["training"]["threads"] == 3
    monkeypatch.setattr(training_run.runtime, "choose_num_threads", lambda: 5)
    train(None, {"training.max_steps": 8}, out=tmp_path / "run", resume=True)
    assert record_of(first.folder)["resolved"]["training"]["threads"] == 3
