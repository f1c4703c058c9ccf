"""The README is true: its examples run, its tree, links and make targets exist."""

import re
from pathlib import Path

import pytest

from document_commands import find_commands, run, write_corpora

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TREE = re.search(r"```\nsrc/sightline/\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_readme_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a model folder
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own README


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_readme_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_corpora()
    for command in find_commands(README):
        assert run(command) == 0, (command, capsys.readouterr().err)


def test_readme_tree_names_every_module_and_nothing_else():
    """A file tree in prose drifts unless a test reads it."""
    assert TREE, "the README shows the tree of src/sightline"
    listed = {line.split()[0].rstrip("/") for line in TREE.group(1).splitlines() if line.strip()}
    package = ROOT / "src" / "sightline"
    there = {path.stem if path.is_dir() else path.name for path in package.iterdir() if path.name[0] not in "_."}
    assert listed == there - {"py.typed"}


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", README))
def test_readme_link_exists(target):
    assert (ROOT / target).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)$", README, re.MULTILINE))))
def test_readme_make_target_exists(target):
    (name,) = filter(None, target)
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_document_has_no_placeholder(path):
    """A number to be filled in later must not be published as a word in capitals."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
    assert not re.search(r"\b[A-Z]{3,}_[A-Z_]{3,}\b|^[A-Z_]{3,}$", prose, re.MULTILINE)
    assert not re.search(r"^[A-Z]+_[A-Z_]+$", path.read_text(), re.MULTILINE)  # where output was to be pasted
