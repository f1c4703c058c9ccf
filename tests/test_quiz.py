"""The findability quiz must tell the truth."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUESTION = re.compile(r"^\d+\. (?P<question>.+\?) `(?P<file>[^`]+)` → `(?P<name>[^`]+)`$", re.MULTILINE)
ANSWERS = [match.groups() for match in QUESTION.finditer((ROOT / "docs/quiz.md").read_text())]


def defined_names(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return what a module or class body defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def test_quiz_asks_thirty_questions():
    assert len(ANSWERS) == 30


@pytest.mark.parametrize(("question", "file", "name"), ANSWERS, ids=[answer[2] for answer in ANSWERS])
def test_quiz_answer_exists(question, file, name):
    body = ast.parse((ROOT / file).read_text()).body
    for part in name.split("."):
        assert part in defined_names(body), f"{question} {file} does not define {name}"
        body = getattr(defined_names(body)[part], "body", [])
