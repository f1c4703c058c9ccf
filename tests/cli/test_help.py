"""What every command has: help with examples, and nothing slow before it works."""

import re
import subprocess
import sys

import pytest

from sightline.cli.main import WORDS, main

NAMES = [word.__name__ for words in WORDS.values() for word in words]


def help_of(name: str, capsys) -> str:
    assert main([name, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_of_the_command(name, capsys):
    assert re.search(rf"Examples?:\s.*\bsightline {name} ", help_of(name, capsys), re.DOTALL)


@pytest.mark.parametrize("name", NAMES)
def test_examples_name_only_options_that_are_there(name, capsys):
    text = help_of(name, capsys)
    examples = [line for line in text.splitlines() if f"sightline {name} " in line]
    options = set(re.findall(r"--[a-z-]+", text.partition("\nOptions:\n")[2]))
    assert set(re.findall(r"\s(--[a-z-]+)", " ".join(examples))) <= options


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("train", "demo", "serve")])
def test_command_speaks_json(name, capsys):
    assert "--json" in help_of(name, capsys)


def test_commands_stand_under_headings(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for section, words in WORDS.items():
        _, _, listed = text.partition(f"\n{section}:\n")
        assert re.findall(r"^  (\w+) ", listed.partition("\n\n")[0], re.MULTILINE)[: len(words)] == [
            word.__name__ for word in words
        ]


def test_what_a_command_does_is_said_to_the_end(capsys):
    assert main(["--help"]) == 0
    assert "...\n" not in capsys.readouterr().out.partition("COMMAND [ARGS]...\n")[2]


def test_help_of_all_commands_loads_nothing_slow():
    code = (
        "import contextlib, io, sys\n"
        "from sightline.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    codes = {{main([name, '--help']) for name in {NAMES}}}\n"
        "print(codes, [name for name in ('torch', 'numpy', 'tokenizers', 'rich') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "{0} []\n"
