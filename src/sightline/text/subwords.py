"""Tokenizers of pieces and words: WordPiece, Unigram, whole words. All work on bytes, so all spell every text."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from sightline.text.display import CONTINUES
from sightline.text.special import SEQUENCE_TOKENS
from sightline.text.tokenizer import Tokenizer
from sightline.text.words import byte_characters, byte_words, check_no_words, check_room, check_special_tokens, checked

LONGEST_WORD = 24
"""Bytes of what WordPiece takes for a word."""

IMPOSSIBLE = -1e6
"""The score of a piece that no text is cut into."""


def train_wordpiece(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Learn WordPiece: each word is cut into the longest pieces there are, from the left.

    Pieces within a word are marked by a character that bytes never become, where BERT's ## could also be text.
    """
    check_special_tokens(special_tokens)
    check_no_words(special_tokens)
    check_room(vocab_size, 2 * 256 + len(special_tokens))
    library = tokenizers.Tokenizer(models.WordPiece(unk_token="", max_input_chars_per_word=LONGEST_WORD))
    library.pre_tokenizer = short_words(split_digits=split_digits)
    inside = [CONTINUES + character for character in byte_characters()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size - len(special_tokens),
        min_frequency=2,
        # Numbered beforehand: the library would do it in no fixed order, and break ties by number.
        special_tokens=[*byte_characters(), *inside],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    library.train_from_iterator(checked(texts), trainer)
    learned = library.get_vocab()
    tokens = [*special_tokens, *sorted(learned, key=learned.__getitem__)]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    model = models.WordPiece(
        vocab=vocabulary,
        unk_token="",
        continuing_subword_prefix=CONTINUES,
        max_input_chars_per_word=LONGEST_WORD,
    )
    return assembled(model, special_tokens, short_words(split_digits=split_digits))


def train_unigram(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Learn a unigram model: each word is cut into its most probable pieces (Kudo 2018).

    The library adds probabilities up in no fixed order: of pieces that are equally good, another may be kept next time.
    """
    check_special_tokens(special_tokens)
    check_no_words(special_tokens)
    check_room(vocab_size, 256 + len(special_tokens))
    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = byte_words(split_digits=split_digits)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size - len(special_tokens), initial_alphabet=byte_characters(), show_progress=False
    )
    library.train_from_iterator(checked(texts), trainer)
    pieces = learned_pieces(library)
    lowest = min(pieces.values())
    for character in byte_characters():
        pieces.setdefault(character, lowest - 1)
    # What is no piece of text scores so low that text is never cut into it.
    vocabulary = [(token, IMPOSSIBLE) for token in special_tokens] + list(pieces.items())
    return assembled(models.Unigram(vocab=vocabulary), special_tokens, byte_words(split_digits=split_digits))


def train_words(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Make the commonest words tokens, each with the blank before it; any other word is spelled in bytes."""
    check_special_tokens(special_tokens)
    check_no_words(special_tokens)
    check_room(vocab_size, 256 + len(special_tokens))
    words = byte_words(split_digits=split_digits)
    counts: Counter[str] = Counter()
    for text in checked(texts):
        counts.update(word for word, _ in words.pre_tokenize_str(text))
    commonest = sorted(counts, key=lambda word: (-counts[word], word))
    tokens = list(dict.fromkeys([*special_tokens, *byte_characters(), *commonest]))[:vocab_size]
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    # A word that is a token is taken whole; without merges any other falls apart into its bytes.
    model = models.BPE(vocab=vocabulary, merges=[], ignore_merges=True)
    return assembled(model, special_tokens, words)


def short_words(*, split_digits: bool) -> Any:
    """Return what cuts text into words of `LONGEST_WORD` bytes or less: WordPiece takes their square in time."""
    short = pre_tokenizers.Split(tokenizers.Regex(rf"[\s\S]{{1,{LONGEST_WORD}}}"), behavior="isolated")
    return pre_tokenizers.Sequence([byte_words(split_digits=split_digits), short])


def assembled(model: Any, special_tokens: Sequence[str], words: Any) -> Tokenizer:
    """Put a tokenizer together from its model and what cuts text into words."""
    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = words
    unmark = decoders.Replace(tokenizers.Regex(f"^{CONTINUES}"), "")
    library.decoder = decoders.Sequence([unmark, decoders.ByteLevel()])
    library.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return Tokenizer(library)


def learned_pieces(library: tokenizers.Tokenizer) -> dict[str, float]:
    """Return the pieces of a unigram model with their scores, the best first; only its JSON tells them."""
    scores = {token: round(score, 9) for token, score in json.loads(library.to_str())["model"]["vocab"]}
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
