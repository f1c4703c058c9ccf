"""Every statement of docs/spec.md that a test cites by number exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CITED = re.compile(r"spec (\d(?:\.\d)?(?:(?:, | – )\d\.\d)*)")


def statement_numbers() -> set[str]:
    """Return the numbers of all sections and statements."""
    numbers, section = set(), ""
    for line in (ROOT / "docs/spec.md").read_text().splitlines():
        if match := re.match(r"## (\d)\.", line):
            section = match[1]
            numbers.add(section)
        elif match := re.match(r"(\d)\. ", line):
            numbers.add(f"{section}.{match[1]}")
    return numbers


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: path.name)
def test_cited_statements_exist(path):
    cited = {number for found in CITED.findall(path.read_text()) for number in re.findall(r"\d(?:\.\d)?", found)}
    assert cited <= statement_numbers()
