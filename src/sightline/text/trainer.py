"""Make a tokenizer from text. Every kind can spell every string, so none needs an unknown token."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from sightline.errors import SettingsError
from sightline.settings import one_of
from sightline.text.special import SEQUENCE_TOKENS
from sightline.text.subwords import train_unigram, train_wordpiece, train_words
from sightline.text.tokenizer import Tokenizer
from sightline.text.words import byte_characters, byte_words, check_room, check_special_tokens, checked

Kind = Literal["bpe", "wordpiece", "unigram", "words", "characters"]


def train_tokenizer(
    kind: Kind,
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Make a tokenizer of the kind named; for all of them `decode(encode(text)) == text`."""
    if kind == "characters":  # digits are single there anyway
        return train_characters(texts, vocab_size=vocab_size, special_tokens=special_tokens)
    ways: dict[str, Callable[..., Tokenizer]] = {
        "bpe": train_bpe,
        "wordpiece": train_wordpiece,
        "unigram": train_unigram,
        "words": train_words,
    }
    if kind not in ways:
        raise SettingsError(f"a tokenizer is {one_of(get_args(Kind), kind)}, not {kind!r}")
    return ways[kind](texts, vocab_size=vocab_size, special_tokens=special_tokens, split_digits=split_digits)


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
    check_room(vocab_size, 256 + len(special_tokens))
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = byte_words(split_digits=split_digits)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(special_tokens),
        initial_alphabet=byte_characters(),
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
    check_room(vocab_size, least)
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
