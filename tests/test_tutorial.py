"""The tutorial's commands run as shown, on a small sample of the data and with a tiny model."""

from itertools import islice
from pathlib import Path

import pytest

from document_commands import find_commands, run
from runs.small import sentence

ROOT = Path(__file__).parents[1]
TATOEBA = ROOT.parent / "shared" / "data" / "tatoeba" / "eng-deu.tsv"
COMMANDS = find_commands((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))


def sample_pairs() -> list[str]:
    """Return real pairs if the corpus is there, else similar ones."""
    if TATOEBA.exists():
        with TATOEBA.open(encoding="utf-8") as file:
            return [line.rstrip("\n") for line in islice(file, 0, 40_000, 200)]
    return [f"{sentence(number)}.\t{sentence(number).title()}!" for number in range(200)]


def test_tutorial_covers_every_stage():
    names = {command.split()[1] for command in COMMANDS}
    assert {"train", "translate", "evaluate", "neighbors", "info", "average"} <= names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tutorial_commands_work_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = sample_pairs()
    Path("pairs.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("new.tsv").write_text("".join(f"{line}\n" for line in lines[:5]), encoding="utf-8")
    for command in COMMANDS:
        assert run(command) == 0, (command, capsys.readouterr().err)
    assert (tmp_path / "runs" / "translation" / "model").is_dir()
