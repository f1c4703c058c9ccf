"""The whole words of a text, the most frequent first: what people ask about, though models know only pieces of them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
MOST_WORDS = 20_000
LONGEST = 50
MOST_COUNTED = 1_000_000
"""Different words counted before the rare ones are forgotten, so that memory stays bounded."""


class WordCounter:
    """Counts the words of texts that pass by."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def listening(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass the texts on, counting their words."""
        for text in texts:
            self._counts.update(word for word in WORD.findall(text) if len(word) <= LONGEST)
            if len(self._counts) > MOST_COUNTED:
                self._counts = Counter(dict(self._counts.most_common(MOST_COUNTED // 2)))
            yield text

    def words(self) -> tuple[str, ...]:
        """Return the words met most often; of equally frequent ones the first in the alphabet comes first."""
        ranked = sorted(self._counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return tuple(word for word, _ in ranked[:MOST_WORDS])
