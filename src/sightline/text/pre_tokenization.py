"""Pre-tokenization: how text is split into words before training a tokenizer, and checks all trainers share."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers

from sightline.errors import InputError, SettingsError
from sightline.text.tokenizers_backend import require_unicode

# GPT-2's pattern, but no word longer than a hundred characters: time then grows linearly with the text.
WORD_PATTERN = (
    r"'(?:[sdmt]|ll|ve|re)"
    r"| ?\p{L}{1,100}"
    r"|DIGITS"
    r"| ?[^\s\p{L}\p{N}]{1,100}"
    r"|\s{1,100}(?!\S)|\s{1,100}"
)


def byte_pre_tokenizer(*, split_digits: bool) -> Any:
    """Return a pre-tokenizer that splits text into words and maps their bytes to 256 characters."""
    pattern = WORD_PATTERN.replace("DIGITS", r"\p{N}" if split_digits else r" ?\p{N}{1,100}")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def byte_characters() -> list[str]:
    """Return the 256 characters that represent bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def check_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts unchanged, refusing invalid Unicode and an empty corpus."""
    empty = True
    for text in texts:
        require_unicode(text)
        empty = empty and not text
        yield text
    if empty:
        raise InputError("there is no text to train a tokenizer on: the corpus is empty")


def check_special_tokens(tokens: Sequence[str]) -> None:
    """Refuse duplicate names, and names of a single character."""
    if len(set(tokens)) != len(tokens) or any(len(token) < 2 for token in tokens):
        raise SettingsError(
            f"special tokens must be distinct names of two or more characters, not {', '.join(tokens)!r}"
        )


def check_not_words(tokens: Sequence[str]) -> None:
    """Refuse names that text could contain as a whole word, which would be encoded as the special token."""
    for token in tokens:
        if len(byte_pre_tokenizer(split_digits=False).pre_tokenize_str(token)) < 2:
            raise SettingsError(
                f"the special token {token!r} could be a word in the text: put it in brackets, as <{token}>"
            )


def check_vocab_size(vocab_size: int | None, min_size: int) -> None:
    """Refuse a vocabulary too small for every byte and special token."""
    if vocab_size is not None and vocab_size < min_size:
        raise SettingsError(f"vocab_size must be at least {min_size} (every byte and special token), not {vocab_size}")
