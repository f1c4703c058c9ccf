"""The text of docs/walkthrough.md: tables are regenerated, numbers in the prose are only checked."""

import re
from collections.abc import Iterable, Mapping

BLOCK = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,/])−?\d*\.\d+(?![\w.]*\w)%?|(?<![\w.])\d+(?:\.\d+)? ?%")
"""A number with a fraction, or a percentage; integers are counts that the tables show."""
NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)
"""Code, links and comments."""
CONSTANTS = frozenset({"0.1", "0.6", "0.9", "0.98"})
"""Settings, which are not computed from a model."""


def replace_tables(text: str, tables: Mapping[str, str]) -> str:
    """Replace the tables of the text."""
    return BLOCK.sub(lambda found: f"{found[1]}{tables[found['name']]}\n{found[3]}", text)


def blocks(text: str) -> list[str]:
    """Return the names of the tables in the text."""
    return [found["name"] for found in BLOCK.finditer(text)]


def find_numbers(text: str) -> list[str]:
    """Return the numbers in the prose."""
    return NUMBER.findall(NOT_PROSE.sub(" ", BLOCK.sub(" ", text)))


def find_stale_numbers(text: str, computed: Iterable[str]) -> list[str]:
    """Return the numbers of the prose that are not among the computed ones."""
    known = CONSTANTS | set(computed)
    return [number for number in find_numbers(text) if number not in known]
