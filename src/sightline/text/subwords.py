"""Train WordPiece, Unigram and word-level tokenizers. All are byte-level, so all can encode any text."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from sightline.text.display import SUBWORD_PREFIX
from sightline.text.pre_tokenization import (
    byte_characters,
    byte_pre_tokenizer,
    check_not_words,
    check_special_tokens,
    check_texts,
    check_vocab_size,
)
from sightline.text.special import SEQUENCE_TOKENS
from sightline.text.tokenizer import Tokenizer

MAX_WORD_BYTES = 24
"""Maximum length of a word in WordPiece."""

IMPOSSIBLE = -1e6
"""Score of a piece that must never be used to segment text."""


def train_wordpiece(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Train WordPiece: each word is segmented greedily into the longest pieces, from the left.

    Pieces inside a word are marked by a character outside the byte alphabet, as BERT's ## could also be text.
    """
    check_special_tokens(special_tokens)
    check_not_words(special_tokens)
    check_vocab_size(vocab_size, 2 * 256 + len(special_tokens))
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="", max_input_chars_per_word=MAX_WORD_BYTES))
    backend.pre_tokenizer = short_word_pre_tokenizer(split_digits=split_digits)
    inside = [SUBWORD_PREFIX + character for character in byte_characters()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size - len(special_tokens),
        min_frequency=2,
        # Given in order: the backend would number them in no fixed order, and it breaks ties by number.
        special_tokens=[*byte_characters(), *inside],
        continuing_subword_prefix=SUBWORD_PREFIX,
        show_progress=False,
    )
    backend.train_from_iterator(check_texts(texts), trainer)
    learned = backend.get_vocab()
    tokens = [*special_tokens, *sorted(learned, key=learned.__getitem__)]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    model = models.WordPiece(
        vocab=vocabulary,
        unk_token="",
        continuing_subword_prefix=SUBWORD_PREFIX,
        max_input_chars_per_word=MAX_WORD_BYTES,
    )
    return assemble(model, special_tokens, short_word_pre_tokenizer(split_digits=split_digits))


def train_unigram(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Train a unigram model: each word is segmented into its most probable pieces (Kudo 2018).

    Not fully deterministic: the backend sums probabilities in no fixed order, so ties between pieces may differ.
    """
    check_special_tokens(special_tokens)
    check_not_words(special_tokens)
    check_vocab_size(vocab_size, 256 + len(special_tokens))
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.pre_tokenizer = byte_pre_tokenizer(split_digits=split_digits)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size - len(special_tokens), initial_alphabet=byte_characters(), show_progress=False
    )
    backend.train_from_iterator(check_texts(texts), trainer)
    pieces = learned_pieces(backend)
    lowest = min(pieces.values())
    for character in byte_characters():
        pieces.setdefault(character, lowest - 1)
    # Special tokens score so low that text is never segmented into them.
    vocabulary = [(token, IMPOSSIBLE) for token in special_tokens] + list(pieces.items())
    return assemble(models.Unigram(vocab=vocabulary), special_tokens, byte_pre_tokenizer(split_digits=split_digits))


def train_words(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Make the most frequent words tokens, each with its leading space; any other word is split into bytes."""
    check_special_tokens(special_tokens)
    check_not_words(special_tokens)
    check_vocab_size(vocab_size, 256 + len(special_tokens))
    pre_tokenizer = byte_pre_tokenizer(split_digits=split_digits)
    counts: Counter[str] = Counter()
    for text in check_texts(texts):
        counts.update(word for word, _ in pre_tokenizer.pre_tokenize_str(text))
    by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
    tokens = list(dict.fromkeys([*special_tokens, *byte_characters(), *by_frequency]))[:vocab_size]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    # A word in the vocabulary is one token; without merges any other is split into its bytes.
    model = models.BPE(vocab=vocabulary, merges=[], ignore_merges=True)
    return assemble(model, special_tokens, pre_tokenizer)


def short_word_pre_tokenizer(*, split_digits: bool) -> Any:
    """Return a pre-tokenizer for words of at most `MAX_WORD_BYTES`: WordPiece takes quadratic time in their length."""
    short = pre_tokenizers.Split(tokenizers.Regex(rf"[\s\S]{{1,{MAX_WORD_BYTES}}}"), behavior="isolated")
    return pre_tokenizers.Sequence([byte_pre_tokenizer(split_digits=split_digits), short])


def assemble(model: Any, special_tokens: Sequence[str], pre_tokenizer: Any) -> Tokenizer:
    """Build a tokenizer from its model and pre-tokenizer."""
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    strip_prefix = decoders.Replace(tokenizers.Regex(f"^{SUBWORD_PREFIX}"), "")
    backend.decoder = decoders.Sequence([strip_prefix, decoders.ByteLevel()])
    backend.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return Tokenizer(backend)


def learned_pieces(backend: tokenizers.Tokenizer) -> dict[str, float]:
    """Return the pieces of a unigram model with their scores, best first; only its JSON holds them."""
    scores = {token: round(score, 9) for token, score in json.loads(backend.to_str())["model"]["vocab"]}
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
