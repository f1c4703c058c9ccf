"""What every command has: help with examples, and no slow imports before it runs."""

import re
import subprocess
import sys

import pytest

from sightline.cli.main import COMMANDS, main

NAMES = [command.__name__ for commands in COMMANDS.values() for command in commands]


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
def test_command_has_json_output(name, capsys):
    assert "--json" in help_of(name, capsys)


def test_commands_are_listed_under_headings(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for section, commands in COMMANDS.items():
        _, _, listed = text.partition(f"\n{section}:\n")
        assert re.findall(r"^  (\w+) ", listed.partition("\n\n")[0], re.MULTILINE)[: len(commands)] == [
            command.__name__ for command in commands
        ]


def test_summaries_of_commands_are_not_cut(capsys):
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
