"""The answers of the findability quiz exist."""

import re

import pytest

from named import ROOT, is_defined

TEXT = (ROOT / "docs/quiz.md").read_text(encoding="utf-8")
QUESTION = re.compile(r"^\d+\. (?P<question>.+\?) `(?P<file>[^`]+)` → `(?P<name>[^`]+)`$", re.MULTILINE)
ANSWERS = [match.groups() for match in QUESTION.finditer(TEXT)]


def test_quiz_has_twenty_questions():
    assert len(ANSWERS) == 20
    assert TEXT.count("Twenty questions") == 1


@pytest.mark.parametrize(("question", "file", "name"), ANSWERS, ids=[answer[2] for answer in ANSWERS])
def test_quiz_answer_exists(question, file, name):
    assert is_defined(ROOT / file, name), f"{question} {file} does not define {name}"
