"""Count the whole words of a text, for features that need words where models only know subwords."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
MAX_WORDS = 20_000
MAX_WORD_LENGTH = 50
MAX_COUNTED = 1_000_000
"""Distinct words counted before the rare ones are dropped, so that memory stays bounded."""


class WordCounter:
    """Counts the words of a stream of texts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts unchanged, counting their words."""
        for text in texts:
            self._counts.update(word for word in WORD.findall(text) if len(word) <= MAX_WORD_LENGTH)
            if len(self._counts) > MAX_COUNTED:
                self._counts = Counter(dict(self._counts.most_common(MAX_COUNTED // 2)))
            yield text

    def words(self) -> tuple[str, ...]:
        """Return the most frequent words, ties in alphabetical order."""
        ranked = sorted(self._counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return tuple(word for word, _ in ranked[:MAX_WORDS])
