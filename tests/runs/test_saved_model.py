"""The model that a run saves is the one whose step and scores it tells, whatever selects it."""

import json
import re
from dataclasses import replace

import pytest

from sightline import bundle
from sightline.bundle.calibration import Bin, Calibration
from sightline.runs import train
from sightline.runs.prepare import prepare
from sightline.runs.training_run import resolve_recipe, score_saved_model
from sightline.runtime import choose_device
from sightline.training.distributed import Rank
from sightline.training.metrics import read_metrics
from sightline.training.report import SilentReporter

from .small import overrides

NAMES = {"score": "best model", "loss": "model with the lowest validation loss", "last": "last model"}
CASES = [
    ("translation", {"training.best_metric": "last", "training.ema_decay": 0.5}),
    ("language-model", {"training.best_metric": "last"}),
    ("masked-language-model", {"training.best_metric": "loss", "training.ema_decay": 0.5}),
    ("chat", {"training.best_metric": "last", "training.validate_every": 100}),
    ("classification", {"training.best_metric": "score", "training.patience": 1}),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]} by {case[1]['training.best_metric']}")
def run(request, tmp_path_factory):
    """A run of each task, that has been resumed once."""
    task, more = request.param
    place, reporter = tmp_path_factory.mktemp("run"), SilentReporter()
    settings = overrides(place, task, **{"training.validate_every": 2, **more})
    train(task, {**settings, "training.max_steps": 4}, out=place / "one")
    train(task, ["training.max_steps=6"], out=place / "one", resume=True, reporter=reporter)
    return place / "one", more["training.best_metric"], reporter


def test_summary_card_record_and_folder_tell_the_same_step(run):
    folder, metric, reporter = run
    saved, outcome = bundle.load(folder), json.loads((folder / "run.json").read_text(encoding="utf-8"))["outcome"]
    [said] = [text for text in reporter.messages if text.startswith(f"{NAMES[metric]} (step ")]
    last = [record for record in read_metrics(folder / "metrics.jsonl") if "validation_loss" in record][-1]
    steps = {
        saved.training.step,
        outcome["progress"]["best_step"],
        last["best_step"],
        *(int(step) for step in re.findall(r"\(step (\d+)\)", said)),
        *(int(step) for step in re.findall(r"Saved at step (\d+)", saved.card)),
    }
    assert len(steps) == 1
    assert metric != "last" or steps == {last["step"]}


def test_the_scores_told_are_those_of_the_saved_weights(run):
    folder, _, _ = run
    saved = bundle.load(folder)
    recipe, _ = resolve_recipe(None, (), folder, resume=True)
    again = prepare(recipe, folder, rank=Rank(), resume=True, device=choose_device("cpu")).validator
    saved.model.eval()
    assert replace(again, bundle=saved)().loss == pytest.approx(saved.training.scores["validation_loss"], rel=1e-4)


def test_a_model_ahead_of_the_checkpoint_is_told_as_it_is(tmp_path):
    """A kill between the two leaves a folder that is newer than what the run is resumed from."""
    result = train("chat", overrides(tmp_path, "chat", **{"training.best_metric": "last"}), out=tmp_path / "one")
    recipe, folder = resolve_recipe(None, (), result.folder, resume=True)
    run = prepare(recipe, folder, rank=Rank(), resume=True, device=choose_device("cpu"))
    run.state.progress = replace(run.state.progress, step=4, best_step=3)
    step, scores = score_saved_model(run, folder, final=True)
    assert step == 6
    assert scores["validation_loss"] == result.scores["validation_loss"]


def test_patience_beside_the_last_model_is_warned_about(tmp_path):
    more = {"training.best_metric": "last", "training.patience": 1, "training.max_steps": 1}
    reporter = SilentReporter()
    settings = overrides(tmp_path, "language-model", **more, **{"training.validate_every": 1})
    train("language-model", settings, out=tmp_path / "one", reporter=reporter)
    assert any("patience can never stop this run early: with best_metric last" in text for text in reporter.warnings)


def test_a_run_records_how_often_scores_were_right(tmp_path, monkeypatch):
    """As measured at its end, with the decoding settings of the model."""
    measured = []

    def calibrate(found, references, settings):
        measured.append((len(found), len(references)))
        return Calibration("close", settings, (Bin(-1.0, 100, 50),))

    monkeypatch.setattr("sightline.evaluation.translation.calibrate", calibrate)
    settings = overrides(tmp_path, "translation", **{"decoding.beam_size": 2, "training.max_steps": 2})
    facts = bundle.load(train("translation", settings, out=tmp_path / "one").folder).training
    assert measured == [(facts.n_validation, facts.n_validation)]
    assert (facts.calibration.criterion, facts.calibration.decoding.beam_size) == ("close", 2)


def test_a_small_validation_set_gives_no_calibration(tmp_path):
    result = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "one")
    assert bundle.load(result.folder).training.calibration is None
