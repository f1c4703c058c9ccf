"""What a pass over a corpus met: every kind of trouble that is not refused is counted, and a report can print it."""

from collections import Counter
from collections.abc import Mapping

SENTENCES = {
    "kept": "kept",
    "blank": "blank, dropped",
    "half_blank": "with one blank side, dropped",
    "single_turns": "dialogues of a single turn, dropped",
    "byte_order_marks": "byte order marks at the beginning of a file, removed",
    "controls": "lines with control characters, kept",
    "utf8_replaced": "lines that were not UTF-8, the wrong bytes replaced by U+FFFD",
    "utf8_skipped": "lines that were not UTF-8, skipped",
    "long_lines_skipped": "lines of more than a megabyte, skipped",
    "long_lines_cut": "lines of more than a megabyte, cut into several",
    "duplicates": "already seen, kept",
    "duplicates_dropped": "already seen, dropped",
    "copies": "whose two sides are the same, kept",
    "copies_dropped": "whose two sides are the same, dropped",
    "long_skipped": "longer than max_length, skipped",
    "long_cut": "longer than max_length, cut",
}
"""The documented outcomes; what is refused is an error with its place and never a count."""


class Counts:
    """How often each outcome was met."""

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
        """Return what was met, in the order of the documentation."""
        return {name: self._counts[name] for name in SENTENCES if self._counts[name]}

    def report(self) -> list[str]:
        """Return a line for each outcome that was met."""
        return [f"{count:,} {SENTENCES[name]}" for name, count in self.to_mapping().items()]
