"""The tree stays readable: folders of a size to take in at a glance, a sentence for each package, no import cycles."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sightline"
MAX_FILES = 20
FOLDERS = [path for path in (PACKAGE, *sorted(PACKAGE.rglob("*"))) if path.is_dir() and path.name != "__pycache__"]
TREES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}
"""The syntax tree of every module, by its name."""


def test_no_folder_has_too_many_files():
    """The commands stand side by side in cli/, however many there are."""
    counts = {folder: sum(path.is_file() for path in folder.iterdir()) for folder in FOLDERS}
    crowded = {str(folder): count for folder, count in counts.items() if count > MAX_FILES}
    crowded.pop(str(PACKAGE / "cli"), None)
    assert crowded == {}


def test_every_folder_with_modules_is_a_package_with_a_docstring():
    packages = [".".join(folder.relative_to(PACKAGE.parent).parts) for folder in FOLDERS if any(folder.glob("*.py"))]
    assert [name for name in packages if name not in TREES or not ast.get_docstring(TREES[name])] == []


def imported_on_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when a module is imported: none in functions, none for type checkers only."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported_on_import(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for part in ("body", "handlers", "orelse", "finalbody"):
                yield from imported_on_import(getattr(node, part, []))
        elif isinstance(node, ast.ExceptHandler):
            yield from imported_on_import(node.body)


def ancestors(name: str) -> list[str]:
    """Return the packages a module is in, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def imports_of(name: str) -> set[str]:
    """Return the modules of the package that a module imports, with the packages these are in and it is not."""
    named: set[str] = set()
    for node in imported_on_import(TREES[name].body):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        else:
            assert not node.level, f"{name} has a relative import"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            named |= {module if module in TREES else str(node.module) for module in whole}
    modules = {module for module in named if module in TREES}
    return modules | {package for module in modules for package in ancestors(module)} - {name, *ancestors(name)}


def test_modules_do_not_import_each_other_in_a_circle():
    try:
        TopologicalSorter({name: imports_of(name) for name in TREES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


TASK_NAMES = {"translation", "chat", "language-model", "masked-language-model", "classification"}
FAMILY_NAMES = {"transformer", "bert", "gpt"}
CLASSES = {
    "Translator", "Chat", "Generator", "Filler", "Classifier", "Seq2SeqPipeline", "Transformer", "Bert", "GPT",
    "TransformerConfig", "BertConfig", "GPTConfig",
}  # fmt: skip


def names_in(node: ast.expr) -> set[str]:
    """Return the classes that the second argument of `isinstance` names."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def find_dispatch(tree: ast.Module) -> Iterator[str]:
    """Yield where code depends on the name of a task or on a class: comparisons, tables, `isinstance`."""
    for_types = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)}  # tells the type checker
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            if names_in(node.args[1]) & CLASSES:
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare | ast.Dict | ast.Match):
            keys = node.keys if isinstance(node, ast.Dict) else ast.walk(node)
            found = {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            if found & TASK_NAMES:
                yield ast.unparse(node)


@pytest.mark.parametrize("name", [name for name in TREES if not name.startswith("sightline.tasks")])
def test_no_task_or_family_is_dispatched_outside_its_row(name):
    """A task is a row of tasks/, a family a row of the registry: nothing elsewhere asks which one it is."""
    assert list(find_dispatch(TREES[name])) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.js")), ids=lambda path: path.name)
def test_page_knows_no_task_and_no_family(path):
    words = {f"{quote}{name}{quote}" for name in TASK_NAMES | FAMILY_NAMES for quote in "\"'`"}
    kept = {'"chat"'} if path.name in ("studio.js", "chat.js") else set()  # the view Chat, not the task
    code = "\n".join(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("//")
    )
    assert sorted(word for word in words - kept if word in code) == []
