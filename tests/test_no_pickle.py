"""Nothing in the package can run what a file says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sightline"
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "shelve", "marshal", "dill", "joblib"}
FUNCTIONS = {"eval", "exec", "__import__", "compile"}
METHODS = {("torch", "load"), ("torch", "save"), ("np", "load"), ("numpy", "load"), ("torch.jit", "load")}

LOAD_WITHOUT_UNPICKLER = """
import pickle, sys, _pickle
from sightline.bundle import load

class Forbidden:
    def __init__(self, *args, **kwargs):
        print("unpickled")
        raise SystemExit(9)

pickle.Unpickler = pickle._Unpickler = pickle.load = pickle.loads = Forbidden
_pickle.Unpickler = _pickle.load = _pickle.loads = Forbidden
load(sys.argv[1])
print("loaded")
"""


def imported(node: ast.AST) -> set[str]:
    """Return the top names that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return set()


def dangers(source: str) -> list[str]:
    """Name everything in a source text that could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        found += sorted(imported(node) & MODULES)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            found.append(node.func.id)
        if isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in METHODS:
            found.append(ast.unparse(node))
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found.append("allow_pickle")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_source_has_no_way_to_run_a_file(file):
    assert dangers(file.read_text()) == []


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from joblib import load", "torch.load(f)", "x = eval(y)", "f(allow_pickle=True)", "np.load(f)"],
)
def test_search_finds_what_it_looks_for(source):
    assert dangers(source)


def test_loading_never_makes_an_unpickler(model_folder):
    run = subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT_UNPICKLER, str(model_folder)], capture_output=True, text=True
    )
    assert (run.stdout, run.returncode) == ("loaded\n", 0), run.stderr
