"""words.txt: the whole words of the training text, one a line, the most frequent first.

For whoever asks a model about words, though it knows only pieces of them.
"""

from collections.abc import Sequence
from pathlib import Path

from sightline.errors import ModelFileError

MOST_WORDS = 200_000
MOST_BYTES = 20_000_000
LONGEST_WORD = 1_000
CONTROLS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def read_words(data: bytes, path: Path) -> tuple[str, ...]:
    """Read words.txt, refusing what is not a list of words."""
    if not data:
        raise ModelFileError(path, "is empty: without words there is no such file")
    if data.count(b"\n") > MOST_WORDS:
        raise ModelFileError(path, f"has more than {MOST_WORDS:,} lines")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(path, f"is not text: byte {error.start:,} is not UTF-8") from None
    *words, rest = text.split("\n")
    if rest:
        raise ModelFileError(path, "does not end with the end of a line: something of it is missing")
    if problem := problem_with(words):
        raise ModelFileError(path, problem)
    return tuple(words)


def words_text(words: Sequence[str]) -> str:
    """Write words.txt."""
    return "".join(f"{word}\n" for word in words)


def problem_with(words: Sequence[str]) -> str | None:
    """Return why these are not the words of a model, if they are not."""
    if len(words) > MOST_WORDS:
        return f"has {len(words):,} words, more than {MOST_WORDS:,}"
    for number, word in enumerate(words, start=1):
        if problem := problem_with_word(word):
            return f"line {number:,} {problem}"
    if len(set(words)) < len(words):
        return "has a word twice"
    size = len(words_text(words).encode("utf-8"))
    return f"has {size:,} bytes, more than {MOST_BYTES:,}" if size > MOST_BYTES else None


def problem_with_word(word: str) -> str | None:
    """Return why this is no word, if it is none."""
    if not word:
        return "is empty"
    if len(word) > LONGEST_WORD:
        return f"has {len(word):,} characters: that is no word"
    if word.split() != [word] or not CONTROLS.isdisjoint(word):
        return f"is not one word: {word[:60]!r}"
    return "holds half of a surrogate pair" if any("\ud800" <= c <= "\udfff" for c in word) else None
