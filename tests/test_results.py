"""`make results`: rows can be carried out, what is done is not done again, and the tables say what was found."""

import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sightline import __version__
from sightline.cli.main import main
from sightline.run.overrides import changed
from sightline.run.recipe import read_recipe

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))  # what makes the documents stands beside them and is not part of the package
carry = importlib.import_module("making.results.carry_out")
row = importlib.import_module("making.results.row")
rows = importlib.import_module("making.results.rows")
command = importlib.import_module("making.results.__main__")
table = importlib.import_module("making.results.table")
corpora = importlib.import_module("making.results.corpora")

TRIALS = [(one, trial) for one in rows.ROWS for trial in one.trials]


@pytest.mark.parametrize(("one", "trial"), TRIALS, ids=lambda it: it.name)
def test_every_training_of_every_row_is_one_that_can_be_asked_for(one, trial):
    for training in (*trial.beforehand, *trial.trainings):
        recipe = changed(read_recipe(training.recipe), training.settings)
        assert recipe.data.train
    assert trial.test[0] in ("--source", "--text", "--labeled", "--dialogues")


def test_names_are_the_rows_own():
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
    return row.Row("tiny", "a tiny text", "loss", "1.00 (nobody)", ("text.txt",), (trial,), places=3)


def test_command_is_run_and_its_memory_measured():
    code, memory, printed = carry.ran(["--version"], output=subprocess.PIPE)
    assert (code, printed) == (0, f"sightline {__version__}\n")
    assert memory > 1


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Let commands be run in this process, which has loaded everything."""

    def ran(arguments, *, output=None) -> tuple[int, int, str]:
        code = main([str(argument) for argument in arguments])
        return code, 1, capsys.readouterr().out

    monkeypatch.setattr(carry, "ran", ran)


def test_row_is_trained_scored_and_not_trained_again(tiny, tmp_path, run_here):
    places = carry.Places(tmp_path / "data", tmp_path / "runs")
    first = carry.carried_out(tiny, tiny.trials[0], places)
    assert first.scores["loss"] > 0
    assert first.commands[0].startswith("sightline train language-model data.train=DATA/text.txt")
    assert first.commands[1] == "sightline evaluate RUNS/tiny/run --text DATA/text.txt"
    before = (tmp_path / "runs/tiny/run/run.json").stat().st_mtime_ns
    again = carry.carried_out(tiny, tiny.trials[0], places)
    assert (tmp_path / "runs/tiny/run/run.json").stat().st_mtime_ns == before
    assert (again.scores, again.settings) == (first.scores, first.settings)
    other = dataclasses.replace(
        tiny.trials[0].trainings[0], settings=(*tiny.trials[0].trainings[0].settings, "training.seed=5")
    )
    with pytest.raises(SystemExit, match="other settings"):
        carry.train(tiny, other, places)


def test_a_part_of_a_row_can_be_carried_out(tiny, tmp_path, monkeypatch):
    asked_for = []
    trials = tuple(dataclasses.replace(tiny.trials[0], name=f"seed {seed}") for seed in (1, 2, 3))
    monkeypatch.setattr(command, "carried_out", lambda one, trial, places: asked_for.append(trial.name))
    monkeypatch.setattr(command, "keep", lambda found: None)
    monkeypatch.setattr(command, "write_tables", lambda: None)
    places = carry.Places(tmp_path / "data", tmp_path / "runs")
    command.carry_out(dataclasses.replace(tiny, trials=trials), places, named="seed 2")
    assert asked_for == ["seed 2"]


def test_a_part_that_no_row_has_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["results", "multi30k-tok", "--trial", "seed 9", "--data", "a", "--runs", "b"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "no trial is named seed 9: seed 1, seed 2, seed 3" in capsys.readouterr().err


def test_what_another_model_took_is_not_counted(tiny, tmp_path, monkeypatch):
    minutes = {"run": 1.0, "other": 90.0}
    trained = []
    monkeypatch.setattr(carry, "train", lambda row, one, places: trained.append(one.folder) or (minutes[one.folder], 5))
    monkeypatch.setattr(carry, "evaluated", lambda arguments: ({"loss": 1.0}, 3))
    other = dataclasses.replace(tiny.trials[0].trainings[0], folder="other")
    trial = dataclasses.replace(tiny.trials[0], beforehand=(other,))
    found = carry.carried_out(tiny, trial, carry.Places(tmp_path / "data", tmp_path / "runs"))
    assert trained == ["other", "run"]
    assert (found.minutes, found.memory_mb) == (1.0, 5)
    assert "--out RUNS/tiny/other" in found.commands[0]
    assert carry.digest(trial) != carry.digest(tiny.trials[0])


def test_settings_of_a_recipe_are_part_of_a_result(tiny, tmp_path, monkeypatch):
    trial = tiny.trials[0]
    before = carry.digest(trial)
    recipe = read_recipe("language-model")
    monkeypatch.setattr(carry, "read_recipe", lambda name: recipe)
    assert carry.digest(trial) == before
    monkeypatch.setattr(carry, "read_recipe", lambda name: recipe.with_values({"training.clip_norm": 0.5}))
    assert carry.digest(trial) != before


def test_minutes_and_memory_of_a_run_are_those_it_has_left(tiny, tmp_path):
    folder = tmp_path / "runs" / "tiny" / "run"
    folder.mkdir(parents=True)
    training = tiny.trials[0].trainings[0]
    outcome = {"ending": "steps", "progress": {"seconds": 90.0}}
    (folder / "run.json").write_text(json.dumps({"recipe": carry.asked(training), "outcome": outcome}))
    places = carry.Places(tmp_path / "data", tmp_path / "runs")
    assert carry.train(tiny, training, places) == (1.5, 0)
    folder.with_name("run.memory").write_text("321")
    assert carry.train(tiny, training, places) == (1.5, 321)


def test_every_result_was_had_with_the_settings_of_today():
    """Whoever changes a recipe of a row carries the row out again."""
    wanted = {(one.name, trial.name): carry.digest(trial) for one, trial in TRIALS}
    for kept in json.loads((DOCS / "results.json").read_text(encoding="utf-8")):
        assert kept["settings"] == wanted[kept["row"], kept["trial"]], (kept["row"], kept["trial"])


def test_training_that_was_stopped_is_not_done(tmp_path):
    for outcome, done in (
        ({}, False),
        ({"outcome": {"ending": "signal"}}, False),
        ({"outcome": {"ending": "steps"}}, True),
    ):
        (tmp_path / "run.json").write_text(json.dumps(outcome))
        assert carry.ended(tmp_path) is done
    assert not carry.ended(tmp_path / "nowhere")


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


def test_tables_have_scores_published_figures_and_commands(tiny):
    kept = [record("seed 1", 1.25), record("seed 2", 1.35)]
    full, short = table.in_full([tiny], kept), table.in_short([tiny], kept)
    for text in ("1.250", "1.350", "1.00 (nobody)", "1,234 MB", "abc", "`tok:none`", "sightline train …"):
        assert text in full
    assert "**1.300 ± 0.071 (2 seeds)** | 1.00 (nobody)" in short
    assert "Not run yet" in table.in_full([tiny], [])


def test_documents_hold_what_was_kept():
    """Whoever carries a row out has written the tables; nobody has changed them by hand."""
    kept = json.loads((DOCS / "results.json").read_text(encoding="utf-8"))
    for path, made in ((DOCS / "results.md", table.in_full), (DOCS.parent / "README.md", table.in_short)):
        text = path.read_text(encoding="utf-8")
        assert table.woven(text, made(rows.ROWS, kept)) == text, path.name


def test_table_needs_its_place():
    with pytest.raises(SystemExit, match="marks"):
        table.woven("no place", "made")


def test_shakespeare_is_cut_where_nanogpt_cuts_it(tmp_path):
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("abcdefghij" * 3)
    corpora.two_parts_of_shakespeare(tmp_path, tmp_path)
    assert [len((tmp_path / name).read_text()) for name in ("train.txt", "val.txt")] == [27, 3]


def test_sentences_of_wikitext_stand_a_line_each(tmp_path):
    (tmp_path / "wikitext2").mkdir()
    text = " = Title = \n \n One sentence . Another one ! \n = = Section = = \n More . \n = Next = \n Last . \n"
    for part in ("train", "valid"):
        (tmp_path / "wikitext2" / f"{part}.raw.txt").write_text(text)
    corpora.sentences_of_wikitext(tmp_path, tmp_path)
    assert (tmp_path / "wikitext-train.txt").read_text() == "\nOne sentence .\nAnother one !\nMore .\n\nLast .\n"
