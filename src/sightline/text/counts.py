"""Outcome counts of a pass over a corpus: every anomaly that is not refused is counted and can be reported."""

from collections import Counter
from collections.abc import Mapping

SENTENCES = {
    "kept": "kept",
    "blank": "blank, dropped",
    "half_blank": "with one blank side, dropped",
    "single_turns": "dialogues of a single turn, dropped",
    "byte_order_marks": "byte order marks at the start of a file, removed",
    "controls": "lines with control characters, kept",
    "utf8_replaced": "lines that were not UTF-8, bad bytes replaced by U+FFFD",
    "utf8_skipped": "lines that were not UTF-8, skipped",
    "long_lines_skipped": "lines of more than a megabyte, skipped",
    "long_lines_cut": "lines of more than a megabyte, split",
    "duplicates": "duplicates, kept",
    "duplicates_dropped": "duplicates, dropped",
    "copies": "with identical source and target, kept",
    "copies_dropped": "with identical source and target, dropped",
    "long_skipped": "longer than max_length, dropped",
    "long_cut": "longer than max_length, truncated",
}
"""The documented outcomes; anything refused is an error with its line, never a count."""


class Counts:
    """How often each outcome occurred."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter()
        for name, count in (counts or {}).items():
            self.add(name, count)

    def add(self, name: str, count: int = 1) -> None:
        """Count an outcome; it must be a documented one."""
        if name not in SENTENCES:
            raise KeyError(name)
        self._counts[name] += count

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def to_mapping(self) -> dict[str, int]:
        """Return the counts above zero, in the order of `SENTENCES`."""
        return {name: self._counts[name] for name in SENTENCES if self._counts[name]}

    def report(self) -> list[str]:
        """Return a line for each outcome that occurred."""
        return [f"{count:,} {SENTENCES[name]}" for name, count in self.to_mapping().items()]
