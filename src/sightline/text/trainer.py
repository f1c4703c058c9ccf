"""Make a tokenizer from text. Both kinds can spell every string, so neither needs an unknown token."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from sightline.errors import InputError, SettingsError
from sightline.text.library import require_unicode
from sightline.text.special import SEQUENCE_TOKENS
from sightline.text.tokenizer import Tokenizer

# GPT-2's words, but none longer than a hundred characters: time then grows with the text, not with its square.
WORDS = (
    r"'(?:[sdmt]|ll|ve|re)"
    r"| ?\p{L}{1,100}"
    r"|DIGITS"
    r"| ?[^\s\p{L}\p{N}]{1,100}"
    r"|\s{1,100}(?!\S)|\s{1,100}"
)


def train_bpe(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Learn byte-level BPE; a small corpus may not have `vocab_size` pieces worth learning, then there are fewer.

    The same texts in the same order give the same tokenizer. With `split_digits` every digit is a token of its own.
    """
    check_special_tokens(special_tokens)
    least = 256 + len(special_tokens)
    if vocab_size < least:
        raise SettingsError(f"vocab_size must be at least {least} (every byte and special token), not {vocab_size}")
    words = WORDS.replace("DIGITS", r"\p{N}" if split_digits else r" ?\p{N}{1,100}")
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(checked(texts), trainer)
    return Tokenizer(library)


def train_characters(
    texts: Iterable[str], *, vocab_size: int | None = None, special_tokens: Sequence[str] = SEQUENCE_TOKENS
) -> Tokenizer:
    """Make every character of the texts a token, the commonest if there is a limit; any other is spelled in bytes."""
    check_special_tokens(special_tokens)
    least = 256 + len(special_tokens)
    if vocab_size is not None and vocab_size < least:
        raise SettingsError(f"vocab_size must be at least {least} (every byte and special token), not {vocab_size}")
    counts: Counter[str] = Counter()
    for text in checked(texts):
        counts.update(text)
    commonest = sorted(counts, key=lambda character: (-counts[character], character))
    kept = sorted(commonest if vocab_size is None else commonest[: vocab_size - least])
    tokens = [*special_tokens, *(f"<0x{byte:02X}>" for byte in range(256)), *kept]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    # BPE without merges: every character alone, and bytes for those without a token.
    library = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]{1,100}"), behavior="isolated")
    library.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    library.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return Tokenizer(library)


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
