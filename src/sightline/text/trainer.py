"""Train a tokenizer on text. Every kind can encode every string, so none needs an unknown token."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from sightline.errors import SettingsError
from sightline.settings import one_of
from sightline.text.pre_tokenization import (
    byte_characters,
    byte_pre_tokenizer,
    check_special_tokens,
    check_texts,
    check_vocab_size,
)
from sightline.text.special import SEQUENCE_TOKENS
from sightline.text.subwords import train_unigram, train_wordpiece, train_words
from sightline.text.tokenizer import Tokenizer

Kind = Literal["bpe", "wordpiece", "unigram", "words", "characters"]


def train_tokenizer(
    kind: Kind,
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Train a tokenizer of the given kind; all of them guarantee `decode(encode(text)) == text`."""
    if kind == "characters":  # which splits digits anyway
        return train_characters(texts, vocab_size=vocab_size, special_tokens=special_tokens)
    trainers_by_kind: dict[str, Callable[..., Tokenizer]] = {
        "bpe": train_bpe,
        "wordpiece": train_wordpiece,
        "unigram": train_unigram,
        "words": train_words,
    }
    if kind not in trainers_by_kind:
        raise SettingsError(f"the tokenizer kind must be {one_of(get_args(Kind), kind)}, not {kind!r}")
    return trainers_by_kind[kind](
        texts, vocab_size=vocab_size, special_tokens=special_tokens, split_digits=split_digits
    )


def train_bpe(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Train byte-level BPE; on a small corpus the vocabulary may be smaller than `vocab_size`.

    Deterministic for the same texts in the same order. With `split_digits` every digit is its own token.
    """
    check_special_tokens(special_tokens)
    check_vocab_size(vocab_size, 256 + len(special_tokens))
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = byte_pre_tokenizer(split_digits=split_digits)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(special_tokens),
        initial_alphabet=byte_characters(),
        show_progress=False,
    )
    backend.train_from_iterator(check_texts(texts), trainer)
    return Tokenizer(backend)


def train_characters(
    texts: Iterable[str], *, vocab_size: int | None = None, special_tokens: Sequence[str] = SEQUENCE_TOKENS
) -> Tokenizer:
    """Make every character a token, or only the most frequent up to a limit; any other is encoded as bytes."""
    check_special_tokens(special_tokens)
    min_size = 256 + len(special_tokens)
    check_vocab_size(vocab_size, min_size)
    counts: Counter[str] = Counter()
    for text in check_texts(texts):
        counts.update(text)
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    kept = sorted(by_frequency if vocab_size is None else by_frequency[: vocab_size - min_size])
    tokens = [*special_tokens, *(f"<0x{byte:02X}>" for byte in range(256)), *kept]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    # BPE without merges: one token per character, and bytes for characters without one.
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]{1,100}"), behavior="isolated")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return Tokenizer(backend)
