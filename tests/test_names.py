"""The field's words: no name of 0.1.0 comes back, as a module, a class, a function, a setting, an option or a word."""

import ast
import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
import typer

from old_names import ABOUT_THE_PAST, CLASSES, FUNCTIONS, MODULES, SCRIPTS, WORDS
from sightline.cli.main import app
from sightline.model.registry import FAMILIES
from sightline.renames import OPTIONS, SETTINGS, VALUES, WEIGHTS
from sightline.runs.recipe import SECTIONS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sightline"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TEXTS = ("*.py", "*.js", "*.css", "*.html", "*.toml", "*.md")


def listed(*patterns: str) -> list[Path]:
    """Return the files of the project that git knows or would take in."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("not a git checkout: which files belong to the project is not known")
    return [path for line in found.stdout.splitlines() if (path := ROOT / line).is_file()]


def defined(*kinds: type[ast.stmt]) -> dict[str, Path]:
    """Return the names of all definitions of these kinds, and where one of each is."""
    return {
        node.name: path
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    }


def assigned() -> dict[str, Path]:
    """Return the names that modules assign at their top."""
    return {
        target.id: path
        for path in SOURCES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def test_no_module_has_an_old_name():
    there = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in SOURCES}
    assert there & set(MODULES) == set()
    assert {path.stem for path in PACKAGE.rglob("*.js")} & set(SCRIPTS) == set()


def test_no_class_has_an_old_name():
    there = {**defined(ast.ClassDef), **assigned()}
    assert {name: there[name] for name in CLASSES if name in there} == {}


def test_no_function_has_an_old_name():
    there = defined(ast.FunctionDef, ast.AsyncFunctionDef)
    assert {name: there[name] for name in FUNCTIONS if name in there} == {}


def test_no_constant_counts_in_superlatives():
    """MAX_ and MIN_ say it."""
    superlative = re.compile(r"(MOST|LONGEST|LARGEST|FEWEST|SHORTEST|LEAST|HIGHEST|LOWEST|WIDEST)(_|$)")
    assert {name: path for name, path in assigned().items() if superlative.match(name)} == {}


def fields(section: str) -> set[str]:
    configs = [SECTIONS[section], *(family.config for family in FAMILIES.values() if section == "model")]
    return {field.name for config in configs for field in dataclasses.fields(config)}


@pytest.mark.parametrize("section", SETTINGS)
def test_no_setting_has_an_old_name_and_every_new_one_is_there(section):
    old, new = set(SETTINGS[section]), set(SETTINGS[section].values())
    assert old & fields(section) == set()
    assert new <= fields(section)


def test_every_table_of_renames_leads_somewhere():
    assert all(new not in names for names in [*SETTINGS.values(), WEIGHTS, OPTIONS] for new in names.values())
    assert {name.partition(".")[0] for name in VALUES} <= set(SETTINGS)


def every_option() -> set[str]:
    """Return the options of all commands."""
    pending, found = [typer.main.get_command(app)], set()
    while pending:
        command = pending.pop()
        pending += getattr(command, "commands", {}).values()
        found |= {option for parameter in command.params for option in parameter.opts}
    return found


def test_no_option_has_an_old_name_and_every_new_one_is_there():
    there = every_option()
    assert there & set(OPTIONS) == set()
    assert set(OPTIONS.values()) <= there


def test_old_words_stand_in_no_text():
    old = re.compile(rf"(?<![\w-])({'|'.join(WORDS)})(?![\w-])", re.IGNORECASE)
    told = {
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in listed(*TEXTS)
        if path.relative_to(ROOT).as_posix() not in ABOUT_THE_PAST
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := old.search(line))
    }
    assert told == set()
