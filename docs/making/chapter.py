"""The text of docs/walkthrough.md: its tables are written anew, its sentences are only compared with the numbers."""

import re
from collections.abc import Iterable, Mapping

BLOCK = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,/])−?\d*\.\d+(?![\w.]*\w)%?|(?<![\w.])\d+(?:\.\d+)? ?%")
"""A number with a fraction, or a percentage; whole numbers are counts that one sees in the tables."""
UNTRUE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)
"""What is no sentence: code, addresses, remarks."""
CONSTANTS = frozenset({"0.1", "0.6", "0.9", "0.98"})
"""Settings, which do not come from a model."""


def woven(text: str, tables: Mapping[str, str]) -> str:
    """Return the text with its tables as they are now."""
    return BLOCK.sub(lambda found: f"{found[1]}{tables[found['name']]}\n{found[3]}", text)


def blocks(text: str) -> list[str]:
    """Return the names of the tables that the text has a place for."""
    return [found["name"] for found in BLOCK.finditer(text)]


def numbers_told(text: str) -> list[str]:
    """Return the numbers in the sentences of the text."""
    return NUMBER.findall(UNTRUE.sub(" ", BLOCK.sub(" ", text)))


def untrue(text: str, true: Iterable[str]) -> list[str]:
    """Return the numbers of the text that are not among the true ones."""
    known = CONSTANTS | set(true)
    return [number for number in numbers_told(text) if number not in known]
