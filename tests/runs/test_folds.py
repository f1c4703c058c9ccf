"""Cross-validation: every example is held out once, and the final model is trained on all of them."""

import shutil
import statistics
from pathlib import Path

import pytest

from sightline import bundle
from sightline.errors import RefusedError, SettingsError
from sightline.runs import train
from sightline.runs import training_run as training_run_module
from sightline.runs.folds import fold_recipes, whole_recipe
from sightline.runs.recipe import read_recipe
from sightline.runs.run_record import read_run_record
from sightline.training.metrics import METRICS, read_metrics
from sightline.training.report import SilentReporter

from .small import overrides, weights_of


def settings_of(tmp_path, **more):
    return overrides(tmp_path, "classification", **{"data.folds": 3, "training.max_steps": 4, **more})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    reporter = SilentReporter()
    return train("classification", settings_of(folder), out=folder / "run", reporter=reporter), reporter


def fold_records(result):
    return [read_run_record(result.folder / "folds" / str(fold)) for fold in (1, 2, 3)]


def test_every_example_is_held_out_once_and_the_final_model_sees_all(finished):
    result, _ = finished
    assert sum(record["data"]["validation_examples"] for record in fold_records(result)) == 60
    assert read_run_record(result.folder)["data"]["examples"] == 60


def test_scores_are_the_means_over_the_folds(finished):
    result, reporter = finished
    accuracies = [record["outcome"]["scores"]["accuracy"] for record in fold_records(result)]
    assert result.scores["accuracy"] == pytest.approx(statistics.fmean(accuracies))
    assert result.scores["accuracy_spread"] == pytest.approx(statistics.stdev(accuracies))
    assert any(text.startswith("3 folds, each validated on examples") for text in reporter.messages)
    assert bundle.load(result.folder).training.scores["accuracy"] == pytest.approx(result.scores["accuracy"])


def test_a_stopped_fold_is_resumed_and_finished_ones_are_kept(finished, tmp_path, monkeypatch):
    """The whole is what it would have been."""
    expected, _ = finished
    real, started = training_run_module.run_training, []

    class KilledError(Exception):
        pass

    def die_in_the_second(recipe, folder, *args, **options):
        started.append(folder.name)
        if folder.name == "2" and len(started) == 2:
            raise KilledError
        return real(recipe, folder, *args, **options)

    monkeypatch.setattr(training_run_module, "run_training", die_in_the_second)
    with pytest.raises(KilledError):
        train("classification", settings_of(tmp_path), out=tmp_path / "run")
    result = train("classification", settings_of(tmp_path), out=tmp_path / "run")
    assert started == ["1", "2", "2", "3", "run"]
    assert weights_of(result.folder) == weights_of(expected.folder)


def test_a_run_stopped_in_a_fold_is_resumed_as_a_whole(finished, tmp_path, monkeypatch):
    expected, _ = finished
    real, reporter = training_run_module.train_loop, SilentReporter()

    def stop_in_the_second(state, source, objective, settings, context):
        if context.folder.name != "2":
            return real(state, source, objective, settings, context)
        context.stop.handle(2, None)
        return real(state, source, objective, settings, context)

    with monkeypatch.context() as patch:
        patch.setattr(training_run_module, "train_loop", stop_in_the_second)
        stopped = train("classification", settings_of(tmp_path), out=tmp_path / "run", reporter=reporter)
    assert stopped.exit_code == 130
    assert f"to resume: sightline train --resume --out {tmp_path / 'run'}" in reporter.messages
    result = train(None, out=tmp_path / "run", resume=True)
    assert weights_of(result.folder) == weights_of(expected.folder)
    assert train(None, out=tmp_path / "run", resume=True).scores == result.scores


def test_a_finished_fold_of_other_data_or_settings_is_not_taken(tmp_path):
    settings = settings_of(tmp_path, **{"data.folds": 2})
    train("classification", settings, out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole" / "folds", tmp_path / "run" / "folds")  # as if stopped before the final model
    with pytest.raises(RefusedError, match=r"folds/1 cannot be resumed with other settings: .*model.d_model was 16"):
        train("classification", {**settings, "model.d_model": 8}, out=tmp_path / "run")
    path = Path(settings["data.train"])
    path.write_text(path.read_text().replace("red", "pink"))
    with pytest.raises(RefusedError, match=r"folds/1 was trained on other contents of the data files"):
        train("classification", settings, out=tmp_path / "run")


def test_the_final_model_tells_where_its_scores_come_from(finished):
    result, reporter = finished
    saved = bundle.load(result.folder)
    assert "its scores are the means of 3 models, each validated on a fold it was not trained on" in saved.card
    assert saved.training.n_validation is None
    validations = [one for one in read_metrics(result.folder / METRICS) if "accuracy" in one]
    assert len(validations) == 1  # the others would only repeat it
    assert sum("to use it: " in text for text in reporter.messages) == 1


def test_folds_and_final_model_share_the_minutes(tmp_path):
    recipe = read_recipe("classification").with_values(
        {"data.train": "labeled.tsv", "data.folds": 3, "training.max_minutes": 8}
    )
    folds = fold_recipes(recipe, tmp_path)
    assert {fold.sections["training"]["max_minutes"] for fold in folds.values()} == {2.0}
    whole = whole_recipe(next(iter(folds.values())))
    assert whole.data == recipe.data
    assert whole.sections["training"] == recipe.sections["training"]


def test_a_small_set_is_told_of_folds(tmp_path):
    reporter = SilentReporter()
    train("classification", overrides(tmp_path, "classification"), out=tmp_path / "run", reporter=reporter)
    assert any("12 validation examples held out (20% of the data)" in text for text in reporter.messages)
    assert any("uncertain by ±29 points or so: data.folds=5" in text for text in reporter.messages)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.folds": 1}, "folds must be 0 or between 2 and 100"),
        ({"data.folds": 3, "data.fold": 4}, "fold must be between 1 and folds = 3"),
        ({"data.folds": 3, "data.valid": "a.tsv"}, "folds are parts of train: leave valid out"),
        ({"data.validation_share": 0.5}, "validation_share must be above 0 and at most 0.2"),
    ],
)
def test_impossible_splits_are_refused(tmp_path, settings, message):
    with pytest.raises(SettingsError, match=message):
        train("classification", overrides(tmp_path, "classification", **settings), out=tmp_path / "run")


def test_data_clean_is_reported_and_recorded(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"word {n} and more\tWORT {n} UND MEHR\n" for n in range(40)) + "<b>a</b>\tb\n")
    reporter = SilentReporter()
    settings = overrides(tmp_path, "translation", **{"data.train": str(path), "data.clean": True})
    result = train("translation", settings, out=tmp_path / "run", reporter=reporter)
    assert any("1 dropped by data.clean" in text for text in reporter.messages)
    assert read_run_record(result.folder)["data"]["met"]["clean_markup"] == 1
    assert "1 markup: remains of HTML" in bundle.load(result.folder).card


def test_a_list_of_csv_files_trains_and_is_named(tmp_path):
    for name in ("a", "b"):
        rows = "".join(f'"{name}, word {n}","{name}; Wort {n}"\n' for n in range(20))
        (tmp_path / f"{name}.csv").write_text(rows)
    reporter = SilentReporter()
    settings = overrides(tmp_path, "translation", **{"data.train": str(tmp_path / "*.csv")})
    result = train("translation", settings, out=tmp_path / "run", reporter=reporter)
    assert any("a.csv (and 1 more, each by itself): comma-separated, quoted" in text for text in reporter.messages)
    assert bundle.load(result.folder).training.files == ("*.csv (2 files)",)
    (tmp_path / "b.csv").write_text("another,file\n" * 9)
    with pytest.raises(RefusedError, match=r"data\.sha256 was"):
        train(None, out=result.folder, resume=True)
