"""How a run multiplies is measured once, recorded, told, and kept when it is resumed."""

import json

import pytest

from sightline.errors import ModelFileError
from sightline.runs import train
from sightline.runs.folder import RUN_RECORD
from sightline.training import precision
from sightline.training.report import SilentReporter

from .small import overrides, weights_of, write_corpus

SETTINGS = {
    "model.dropout": 0.2,
    "training.batch_tokens": 1200,
    "training.max_steps": 4,
    "training.checkpoint_every": 2,
    "training.optimizer": "muon",
    "training.schedule": "constant",  # so that a run that ends earlier is the beginning of a longer one
    "training.min_lr_ratio": 0.0,
    "training.warmup_steps": 1,
    "training.best_metric": "last",
}


class Listener(SilentReporter):
    """Remembers what it is told."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def info(self, text):
        self.lines.append(text)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Let 16 bits be fastest everywhere; return the shapes that were measured."""
    shapes = []

    def time_ways(shape):
        shapes.append(shape)
        ways = ("default", "onednn") if shape.kind in precision.ONLY_32_BITS else ("default", "onednn", "bfloat16")
        return dict(zip(ways, (4.0, 3.0, 1.0), strict=False))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(precision.FORCED)
    monkeypatch.setattr(precision, "time_ways", time_ways)
    return shapes


def record_of(run):
    return json.loads((run / RUN_RECORD).read_text())


@pytest.mark.parametrize("task", ["translation", "language-model", "masked-language-model"])
def test_measured_choice_is_recorded_told_and_trained_with(measured, tmp_path, monkeypatch, task):
    chosen, listener = overrides(tmp_path, task, **SETTINGS), Listener()
    write_corpus(tmp_path, task, 300)  # a batch of a few hundred tokens
    train(task, chosen, out=tmp_path / "auto", reporter=listener)
    record = record_of(tmp_path / "auto")["products"]
    assert set(record["linear"].values()) == {"bfloat16"}
    assert (record["attention"], record["optimizer"]) == ("batched", "onednn")
    assert sum(line.startswith("matrix products, as measured here") for line in listener.lines) == 1
    train(task, {**chosen, "training.precision": "float32"}, out=tmp_path / "plain")
    assert "products" not in record_of(tmp_path / "plain")
    assert weights_of(tmp_path / "auto") != weights_of(tmp_path / "plain")


def test_resumed_run_keeps_the_choice_to_the_last_bit(measured, tmp_path, monkeypatch):
    """Even where something else would now be measured."""
    chosen = overrides(tmp_path, "translation", **SETTINGS)
    train("translation", chosen, out=tmp_path / "whole")
    train("translation", {**chosen, "training.max_steps": 2}, out=tmp_path / "run")
    monkeypatch.setattr(precision, "time_ways", lambda shape: pytest.fail("measured again"))
    train(None, {"training.max_steps": 4}, out=tmp_path / "run", resume=True)
    assert record_of(tmp_path / "run")["products"] == record_of(tmp_path / "whole")["products"]
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


def test_measuring_changes_nothing_but_the_products(tmp_path, monkeypatch):
    """Weights, optimizer and random generators are as they were: where torch's own is fastest, the run is the same."""
    chosen = overrides(tmp_path, "translation", **SETTINGS)
    train("translation", {**chosen, "training.precision": "float32"}, out=tmp_path / "plain")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(precision.FORCED)
    monkeypatch.setattr(precision, "time_ways", lambda shape: {"default": 1.0})
    train("translation", chosen, out=tmp_path / "auto")
    assert weights_of(tmp_path / "auto") == weights_of(tmp_path / "plain")


def test_environment_keeps_new_runs_to_torchs_own(measured, tmp_path, monkeypatch):
    """Nothing is measured, recorded or told."""
    monkeypatch.setenv(precision.FORCED, "float32")
    listener = Listener()
    train("translation", overrides(tmp_path, "translation", **SETTINGS), out=tmp_path / "run", reporter=listener)
    assert measured == []
    assert "products" not in record_of(tmp_path / "run")
    assert not [line for line in listener.lines if line.startswith("matrix products")]


def test_run_that_began_before_there_was_a_choice_continues_as_it_began(measured, tmp_path):
    chosen = overrides(tmp_path, "translation", **SETTINGS)
    train("translation", {**chosen, "training.precision": "float32"}, out=tmp_path / "plain")
    train("translation", {**chosen, "training.precision": "float32", "training.max_steps": 2}, out=tmp_path / "run")
    record = record_of(tmp_path / "run")
    del record["recipe"]["training"]["precision"]
    (tmp_path / "run" / RUN_RECORD).write_text(json.dumps(record))
    measured.clear()
    train(None, {"training.max_steps": 4}, out=tmp_path / "run", resume=True)
    assert measured == []
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "plain")


def test_another_machine_is_warned_of_and_a_changed_record_refused(measured, tmp_path):
    train("translation", overrides(tmp_path, "translation", **SETTINGS), out=tmp_path / "run")
    record = record_of(tmp_path / "run")
    record["products"]["machine"] = "another"
    (tmp_path / "run" / RUN_RECORD).write_text(json.dumps(record))
    reporter = SilentReporter()
    train(None, {"training.max_steps": 5}, out=tmp_path / "run", resume=True, reporter=reporter)
    assert any("measured on another machine" in warning for warning in reporter.warnings)
    record["products"]["linear"] = "all of them"
    (tmp_path / "run" / RUN_RECORD).write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match=r"run\.json: has invalid entries: products of the kind linear"):
        train(None, {"training.max_steps": 6}, out=tmp_path / "run", resume=True)
