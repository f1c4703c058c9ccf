"""`make results`: rows can be run, finished trials are skipped, and the tables hold the results."""

import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sightline import __version__
from sightline.cli.main import main
from sightline.runs.recipe import apply_overrides, read_recipe

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))  # the code that makes the documents is not part of the package
runner = importlib.import_module("making.results.trials")
row = importlib.import_module("making.results.row")
rows = importlib.import_module("making.results.rows")
command = importlib.import_module("making.results.__main__")
table = importlib.import_module("making.results.table")
corpora = importlib.import_module("making.results.corpora")

TRIALS = [(one, trial) for one in rows.ROWS for trial in one.trials]


@pytest.mark.parametrize(("one", "trial"), TRIALS, ids=lambda it: it.name)
def test_every_training_of_every_row_has_valid_settings(one, trial):
    for training in (*trial.prerequisites, *trial.trainings):
        recipe = apply_overrides(read_recipe(training.recipe), training.settings)
        assert recipe.data.train
    assert trial.test[0] in ("--source", "--text", "--labeled", "--dialogues")


def test_names_of_rows_and_trials_are_unique():
    assert len({one.name for one in rows.ROWS}) == len(rows.ROWS)
    for one in rows.ROWS:
        assert len({trial.name for trial in one.trials}) == len(one.trials)


@pytest.fixture
def tiny(tmp_path):
    """A row that takes seconds."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text.txt").write_text("".join(f"small text number {n}\n\n" for n in range(60)))
    sizes = ("model.d_model=8", "model.n_heads=2", "model.d_ff=16", "model.n_layers=1", "model.max_length=16")
    settings = ("data.train=DATA/text.txt", "tokenizer.kind=characters", *sizes, "training.max_steps=2")
    training = row.Training("run", "language-model", settings)
    trial = row.Trial("seed 1", (training,), ("--text", "DATA/text.txt"))
    return row.Row("tiny", "a tiny text", "loss", "1.00 (nobody)", ("text.txt",), (trial,), decimals=3)


def test_command_is_run_and_its_memory_measured():
    code, memory, printed = runner.run_command(["--version"], output=subprocess.PIPE)
    assert (code, printed) == (0, f"sightline {__version__}\n")
    assert memory > 1


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Let commands be run in this process, which has loaded everything."""

    def run_command(arguments, *, output=None) -> tuple[int, int, str]:
        code = main([str(argument) for argument in arguments])
        return code, 1, capsys.readouterr().out

    monkeypatch.setattr(runner, "run_command", run_command)


def test_row_is_trained_scored_and_not_trained_again(tiny, tmp_path, run_here):
    folders = runner.Folders(tmp_path / "data", tmp_path / "runs")
    first = runner.run_trial(tiny, tiny.trials[0], folders)
    assert first.scores["loss"] > 0
    assert first.commands[0].startswith("sightline train language-model data.train=DATA/text.txt")
    assert first.commands[1] == "sightline evaluate RUNS/tiny/run --text DATA/text.txt"
    before = (tmp_path / "runs/tiny/run/run.json").stat().st_mtime_ns
    again = runner.run_trial(tiny, tiny.trials[0], folders)
    assert (tmp_path / "runs/tiny/run/run.json").stat().st_mtime_ns == before
    assert (again.scores, again.settings) == (first.scores, first.settings)
    other = dataclasses.replace(
        tiny.trials[0].trainings[0], settings=(*tiny.trials[0].trainings[0].settings, "training.seed=5")
    )
    with pytest.raises(SystemExit, match="other settings"):
        runner.train(tiny, other, folders)


def test_some_trials_of_a_row_can_be_run(tiny, tmp_path, monkeypatch):
    ran = []
    trials = tuple(dataclasses.replace(tiny.trials[0], name=f"seed {seed}") for seed in (1, 2, 3))
    monkeypatch.setattr(command, "run_trial", lambda one, trial, folders: ran.append(trial.name))
    monkeypatch.setattr(command, "save_record", lambda found: None)
    monkeypatch.setattr(command, "write_tables", lambda: None)
    folders = runner.Folders(tmp_path / "data", tmp_path / "runs")
    command.run_row(dataclasses.replace(tiny, trials=trials), folders, named="seed 2")
    assert ran == ["seed 2"]


def test_unknown_trial_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["results", "multi30k-tok", "--trial", "seed 9", "--data", "a", "--runs", "b"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "no trial is named seed 9: seed 1, seed 2, seed 3" in capsys.readouterr().err


def test_minutes_of_prerequisites_are_not_counted(tiny, tmp_path, monkeypatch):
    minutes = {"run": 1.0, "other": 90.0}
    trained = []
    monkeypatch.setattr(
        runner, "train", lambda row, one, folders: trained.append(one.folder) or (minutes[one.folder], 5)
    )
    monkeypatch.setattr(runner, "evaluate", lambda arguments: ({"loss": 1.0}, 3))
    other = dataclasses.replace(tiny.trials[0].trainings[0], folder="other")
    trial = dataclasses.replace(tiny.trials[0], prerequisites=(other,))
    found = runner.run_trial(tiny, trial, runner.Folders(tmp_path / "data", tmp_path / "runs"))
    assert trained == ["other", "run"]
    assert (found.minutes, found.memory_mb) == (1.0, 5)
    assert "--out RUNS/tiny/other" in found.commands[0]
    assert runner.digest(trial) != runner.digest(tiny.trials[0])


def test_digest_depends_on_the_settings_of_the_recipe(tiny, tmp_path, monkeypatch):
    trial = tiny.trials[0]
    before = runner.digest(trial)
    recipe = read_recipe("language-model")
    monkeypatch.setattr(runner, "read_recipe", lambda name: recipe)
    assert runner.digest(trial) == before
    monkeypatch.setattr(runner, "read_recipe", lambda name: recipe.with_values({"training.grad_clip": 0.5}))
    assert runner.digest(trial) != before


def test_minutes_and_memory_of_a_finished_run_are_read_from_its_files(tiny, tmp_path):
    folder = tmp_path / "runs" / "tiny" / "run"
    folder.mkdir(parents=True)
    training = tiny.trials[0].trainings[0]
    outcome = {"stop_reason": "steps", "progress": {"seconds": 90.0}}
    (folder / "run.json").write_text(
        json.dumps({"format": 2, "recipe": runner.resolve_recipe(training), "outcome": outcome})
    )
    folders = runner.Folders(tmp_path / "data", tmp_path / "runs")
    assert runner.train(tiny, training, folders) == (1.5, 0)
    folder.with_name("run.memory").write_text("321")
    assert runner.train(tiny, training, folders) == (1.5, 321)


def test_every_result_has_the_current_settings():
    """A row whose recipe changes must run again."""
    wanted = {(one.name, trial.name): runner.digest(trial) for one, trial in TRIALS}
    for kept in json.loads((DOCS / "results.json").read_text(encoding="utf-8")):
        assert kept["settings"] == wanted[kept["row"], kept["trial"]], (kept["row"], kept["trial"])


def test_interrupted_training_is_not_finished(tmp_path):
    for outcome, done in (
        ({}, False),
        ({"outcome": {"stop_reason": "signal"}}, False),
        ({"outcome": {"stop_reason": "steps"}}, True),
    ):
        (tmp_path / "run.json").write_text(json.dumps({"format": 2, **outcome}))
        assert runner.is_finished(tmp_path) is done
    assert not runner.is_finished(tmp_path / "nowhere")


def test_missing_corpora_are_named(tiny, tmp_path):
    assert tiny.missing(tmp_path / "data") == []
    assert tiny.missing(tmp_path) == ["text.txt"]


def record(trial: str, loss: float) -> dict[str, object]:
    return {
        "row": "tiny",
        "trial": trial,
        "commands": ["sightline train …"],
        "commit": "abc",
        "date": "2026-01-01",
        "minutes": 2.5,
        "memory_mb": 1234,
        "scores": {"loss": loss, "bleu_signature": "tok:none"},
    }


def test_tables_have_scores_published_results_and_commands(tiny):
    kept = [record("seed 1", 1.25), record("seed 2", 1.35)]
    full, short = table.full_tables([tiny], kept), table.summary_table([tiny], kept)
    for text in ("1.250", "1.350", "1.00 (nobody)", "1,234 MB", "abc", "`tok:none`", "sightline train …"):
        assert text in full
    assert "**1.300 ± 0.071 (2 seeds)** | 1.00 (nobody)" in short
    assert "Not run yet" in table.full_tables([tiny], [])


def test_documents_hold_the_recorded_results():
    """Running a row writes the tables; they are not edited by hand."""
    kept = json.loads((DOCS / "results.json").read_text(encoding="utf-8"))
    for path, made in ((DOCS / "results.md", table.full_tables), (DOCS.parent / "README.md", table.summary_table)):
        text = path.read_text(encoding="utf-8")
        assert table.replace_section(text, made(rows.ROWS, kept)) == text, path.name


def test_table_needs_its_marks():
    with pytest.raises(SystemExit, match="marks"):
        table.replace_section("no place", "made")


def test_shakespeare_is_split_as_in_nanogpt(tmp_path):
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("abcdefghij" * 3)
    corpora.split_shakespeare(tmp_path, tmp_path)
    assert [len((tmp_path / name).read_text()) for name in ("train.txt", "val.txt")] == [27, 3]


def test_wikitext_is_split_into_one_sentence_per_line(tmp_path):
    (tmp_path / "wikitext2").mkdir()
    text = " = Title = \n \n One sentence . Another one ! \n = = Section = = \n More . \n = Next = \n Last . \n"
    for part in ("train", "valid"):
        (tmp_path / "wikitext2" / f"{part}.raw.txt").write_text(text)
    corpora.split_wikitext_sentences(tmp_path, tmp_path)
    assert (tmp_path / "wikitext-train.txt").read_text() == "\nOne sentence .\nAnother one !\nMore .\n\nLast .\n"
