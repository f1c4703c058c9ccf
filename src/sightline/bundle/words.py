"""Read and write words.txt: whole words of the training text, one per line, most frequent first.

For features that need words, such as nearest neighbors, where the model only knows subwords.
"""

from collections.abc import Sequence
from pathlib import Path

from sightline.errors import ModelFileError

MAX_WORDS = 200_000
MAX_BYTES = 20_000_000
MAX_WORD_LENGTH = 1_000
CONTROLS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def read_words(data: bytes, path: Path) -> tuple[str, ...]:
    """Read words.txt, refusing what is not a list of words."""
    if not data:
        raise ModelFileError(path, "is empty: a model without words has no such file")
    if data.count(b"\n") > MAX_WORDS:
        raise ModelFileError(path, f"has more than {MAX_WORDS:,} lines")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(path, f"is not text: byte {error.start:,} is not UTF-8") from None
    *words, rest = text.split("\n")
    if rest:
        raise ModelFileError(path, "does not end with a line break: it is truncated")
    if problem := find_problem(words):
        raise ModelFileError(path, problem)
    return tuple(words)


def format_words(words: Sequence[str]) -> str:
    """Return the text of words.txt."""
    return "".join(f"{word}\n" for word in words)


def find_problem(words: Sequence[str]) -> str | None:
    """Return why these are not a valid word list, or None."""
    if len(words) > MAX_WORDS:
        return f"has {len(words):,} words, more than {MAX_WORDS:,}"
    for number, word in enumerate(words, start=1):
        if problem := find_word_problem(word):
            return f"line {number:,} {problem}"
    if len(set(words)) < len(words):
        return "contains a word twice"
    size = len(format_words(words).encode("utf-8"))
    return f"has {size:,} bytes, more than {MAX_BYTES:,}" if size > MAX_BYTES else None


def find_word_problem(word: str) -> str | None:
    """Return why this is not a valid word, or None."""
    if not word:
        return "is empty"
    if len(word) > MAX_WORD_LENGTH:
        return f"has {len(word):,} characters: that is not a word"
    if word.split() != [word] or not CONTROLS.isdisjoint(word):
        return f"is not a single word: {word[:60]!r}"
    return "contains a lone surrogate" if any("\ud800" <= c <= "\udfff" for c in word) else None
