"""The tutorial's commands run as shown, on a small sample of the data and with a tiny model."""

import re
import shlex
from itertools import islice
from pathlib import Path

import pytest

from runs.small import LAYERS, TINY, sentence
from sightline.cli.main import main

ROOT = Path(__file__).parents[1]
TATOEBA = ROOT.parent / "shared" / "data" / "tatoeba" / "eng-deu.tsv"
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]
SMALL = [f"{name}={value}" for name, value in {**TINY, **LAYERS["translation"]}.items()]


def sample_pairs() -> list[str]:
    """Return real pairs if the corpus is there, else similar ones."""
    if TATOEBA.exists():
        with TATOEBA.open(encoding="utf-8") as file:
            return [line.rstrip("\n") for line in islice(file, 0, 40_000, 200)]
    return [f"{sentence(number)}.\t{sentence(number).title()}!" for number in range(200)]


def shrink(command: str) -> list[str]:
    """Return the arguments of a command; training gets a tiny model and a few steps."""
    arguments = shlex.split(command, comments=True)[1:]
    if arguments[0] == "train" and "--resume" not in arguments and not {"--list", "--show-config"} & set(arguments):
        arguments[2:2] = SMALL
    return [argument for argument in arguments if argument != "training.max_steps=4000"]


def test_tutorial_covers_every_stage():
    names = {command.split()[1] for command in COMMANDS if command.startswith("sightline ")}
    assert {"train", "translate", "evaluate", "neighbors", "info", "average"} <= names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tutorial_commands_work_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = sample_pairs()
    Path("pairs.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("new.tsv").write_text("".join(f"{line}\n" for line in lines[:5]), encoding="utf-8")
    for command in COMMANDS:
        if command.startswith("sightline "):
            assert main(shrink(command)) == 0, (command, capsys.readouterr().err)
    assert (tmp_path / "runs" / "translation" / "model").is_dir()
