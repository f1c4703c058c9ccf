"""How text is cut into words before it becomes tokens, and what every tokenizer asks of its texts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers

from sightline.errors import InputError, SettingsError
from sightline.text.library import require_unicode

# GPT-2's words, but none longer than a hundred characters: time then grows with the text, not with its square.
WORDS = (
    r"'(?:[sdmt]|ll|ve|re)"
    r"| ?\p{L}{1,100}"
    r"|DIGITS"
    r"| ?[^\s\p{L}\p{N}]{1,100}"
    r"|\s{1,100}(?!\S)|\s{1,100}"
)


def byte_words(*, split_digits: bool) -> Any:
    """Return what cuts text into words and writes their bytes as 256 characters, so that every text is spelled."""
    words = WORDS.replace("DIGITS", r"\p{N}" if split_digits else r" ?\p{N}{1,100}")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def byte_characters() -> list[str]:
    """Return the 256 characters that stand for bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Pass texts on, refusing what is not Unicode, and refusing to end without having seen a character."""
    empty = True
    for text in texts:
        require_unicode(text)
        empty = empty and not text
        yield text
    if empty:
        raise InputError("there is no text to make a tokenizer from: the corpus is empty")


def check_special_tokens(tokens: Sequence[str]) -> None:
    """Refuse names that would not be told apart from each other or from text."""
    if len(set(tokens)) != len(tokens) or any(len(token) < 2 for token in tokens):
        raise SettingsError(f"special tokens must be different names of two letters or more, not {', '.join(tokens)!r}")


def check_no_words(tokens: Sequence[str]) -> None:
    """Refuse names that text could contain as a word: where words are looked up whole, they would be found."""
    for token in tokens:
        if len(byte_words(split_digits=False).pre_tokenize_str(token)) < 2:
            raise SettingsError(
                f"the special token {token!r} could be a word of a text: put it in brackets, as <{token}>"
            )


def check_room(vocab_size: int | None, least: int) -> None:
    """Refuse a vocabulary that cannot spell everything."""
    if vocab_size is not None and vocab_size < least:
        raise SettingsError(f"vocab_size must be at least {least} (every byte and special token), not {vocab_size}")
