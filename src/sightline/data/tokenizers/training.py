"""Train a tokenizer on text, and count the words of that text.

Every kind of tokenizer can encode every string, so none needs an unknown token. All are trained in the same way
(`train_tokenizer`); a row of `ALGORITHMS` holds what is different.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from sightline.config import one_of
from sightline.data.tokenizers.tokenizer import SEQUENCE_TOKENS, SUBWORD_PREFIX, Tokenizer, require_unicode
from sightline.errors import InputError, SettingsError

Kind = Literal["bpe", "wordpiece", "unigram", "words", "characters"]
MIN_FREQUENCY = 2
"""How often a pair of tokens must occur to be merged: what occurs once teaches nothing about other texts."""


class Limits(NamedTuple):
    """How far a vocabulary grows."""

    vocab_size: int
    min_frequency: int


def train_tokenizer(
    kind: Kind,
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
    min_frequency: int = MIN_FREQUENCY,
    add_prefix_space: bool = False,
) -> Tokenizer:
    """Train a tokenizer of the given kind; all of them guarantee `decode(encode(text)) == text`.

    On a small corpus the vocabulary may be smaller than `vocab_size`. With `split_digits` every digit is its own token.
    BPE and WordPiece merge what occurs `min_frequency` times. With `add_prefix_space` the first word of a text is the
    same token as elsewhere, where a space precedes it.
    Deterministic for the same texts in the same order, except for unigram: the backend sums probabilities in no fixed
    order, so ties between pieces may differ.
    """
    if kind not in ALGORITHMS:
        raise SettingsError(f"the tokenizer kind must be {one_of(get_args(Kind), kind)}, not {kind!r}")
    algorithm = ALGORITHMS[kind]
    check_special_tokens(special_tokens, may_be_words=algorithm.special_may_be_words)
    min_size = algorithm.n_byte_tokens + len(special_tokens)
    if vocab_size < min_size:
        raise SettingsError(f"vocab_size must be at least {min_size} (every byte and special token), not {vocab_size}")
    pre_tokenizer = algorithm.pre_tokenizer(split_digits=split_digits)
    read = (" " + text if text else text for text in check_texts(texts)) if add_prefix_space else check_texts(texts)
    model = algorithm.learn(read, pre_tokenizer, Limits(vocab_size, min_frequency), special_tokens)
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    backend.decoder = algorithm.decoder()
    if add_prefix_space:
        backend.normalizer = normalizers.Prepend(" ")
        backend.decoder = decoders.Sequence([backend.decoder, decoders.Strip(" ", left=1, right=0)])
    backend.add_special_tokens(
        [tokenizers.AddedToken(token, special=True, normalized=False) for token in special_tokens]
    )
    return Tokenizer(backend)


def train_bpe(
    texts: Iterable[str],
    *,
    vocab_size: int = 8_000,
    special_tokens: Sequence[str] = SEQUENCE_TOKENS,
    split_digits: bool = False,
) -> Tokenizer:
    """Train byte-level BPE."""
    return train_tokenizer(
        "bpe", texts, vocab_size=vocab_size, special_tokens=special_tokens, split_digits=split_digits
    )


def train_characters(
    texts: Iterable[str], *, vocab_size: int | None = None, special_tokens: Sequence[str] = SEQUENCE_TOKENS
) -> Tokenizer:
    """Make every character a token, or only the most frequent up to a limit; any other is encoded as bytes."""
    limit = sys.maxsize if vocab_size is None else vocab_size
    return train_tokenizer("characters", texts, vocab_size=limit, special_tokens=special_tokens)


def check_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts unchanged, refusing invalid Unicode and an empty corpus."""
    empty = True
    for text in texts:
        require_unicode(text)
        empty = empty and not text
        yield text
    if empty:
        raise InputError("there is no text to train a tokenizer on: the corpus is empty")


def check_special_tokens(tokens: Sequence[str], *, may_be_words: bool) -> None:
    """Refuse duplicate names, names of a single character, and names that text could contain as a whole word."""
    if len(set(tokens)) != len(tokens) or any(len(token) < 2 for token in tokens):
        raise SettingsError(
            f"special tokens must be distinct names of two or more characters, not {', '.join(tokens)!r}"
        )
    split = split_words(split_digits=False)
    for token in () if may_be_words else tokens:
        if len(split.pre_tokenize_str(token)) < 2:
            raise SettingsError(
                f"the special token {token!r} could be a word in the text: put it in brackets, as <{token}>"
            )


# GPT-2's pattern, but no word is longer than a hundred characters: time then grows linearly with the text.
WORD_PATTERN = (
    r"'(?:[sdmt]|ll|ve|re)"
    r"| ?\p{L}{1,100}"
    r"|DIGITS"
    r"| ?[^\s\p{L}\p{N}]{1,100}"
    r"|\s{1,100}(?!\S)|\s{1,100}"
)


def split_words(*, split_digits: bool) -> Any:
    """Return a pre-tokenizer that splits text into words and maps their bytes to 256 characters."""
    pattern = WORD_PATTERN.replace("DIGITS", r"\p{N}" if split_digits else r" ?\p{N}{1,100}")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


MAX_WORD_BYTES = 24
"""Maximum length of a word in WordPiece, which takes quadratic time in it."""


def split_short_words(*, split_digits: bool) -> Any:
    """Return a pre-tokenizer for words of at most `MAX_WORD_BYTES`."""
    return pre_tokenizers.Sequence([split_words(split_digits=split_digits), split_every(MAX_WORD_BYTES)])


def split_every(n_characters: int) -> Any:
    """Return a pre-tokenizer that cuts text into pieces of at most so many characters."""
    return pre_tokenizers.Split(tokenizers.Regex(rf"[\s\S]{{1,{n_characters}}}"), behavior="isolated")


def byte_characters() -> list[str]:
    """Return the 256 characters that represent bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def train_backend(model: Any, trainer: Any, texts: Iterator[str], pre_tokenizer: Any) -> tokenizers.Tokenizer:
    """Train a model of the library."""
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    backend.train_from_iterator(texts, trainer)
    return backend


def learn_bpe(texts: Iterator[str], pre_tokenizer: Any, limits: Limits, special_tokens: Sequence[str]) -> Any:
    """Merge the most frequent pair of tokens again and again (Sennrich et al. 2016)."""
    trainer = trainers.BpeTrainer(
        vocab_size=limits.vocab_size,
        min_frequency=limits.min_frequency,
        special_tokens=list(special_tokens),
        initial_alphabet=byte_characters(),
        show_progress=False,
    )
    return train_backend(models.BPE(), trainer, texts, pre_tokenizer).model


def learn_wordpiece(texts: Iterator[str], pre_tokenizer: Any, limits: Limits, special_tokens: Sequence[str]) -> Any:
    """Learn pieces, of which a word is segmented greedily into the longest, from the left.

    Pieces inside a word are marked by a character outside the byte alphabet, as BERT's ## could also be text.
    """
    trainer = trainers.WordPieceTrainer(
        vocab_size=limits.vocab_size - len(special_tokens),
        min_frequency=limits.min_frequency,
        # Given in order: the backend would number them in no fixed order, and it breaks ties by number.
        special_tokens=[*byte_characters(), *(SUBWORD_PREFIX + character for character in byte_characters())],
        continuing_subword_prefix=SUBWORD_PREFIX,
        show_progress=False,
    )
    make = partial(models.WordPiece, unk_token="", max_input_chars_per_word=MAX_WORD_BYTES)
    learned = train_backend(make(), trainer, texts, pre_tokenizer).get_vocab()
    tokens = [*special_tokens, *sorted(learned, key=learned.__getitem__)]
    return make(vocab=number_tokens(tokens), continuing_subword_prefix=SUBWORD_PREFIX)


NEVER_USED_SCORE = -1e6
"""Score of a piece that must never be used to segment text."""


def learn_unigram(texts: Iterator[str], pre_tokenizer: Any, limits: Limits, special_tokens: Sequence[str]) -> Any:
    """Learn probabilities of pieces, by which a word is segmented into the most probable ones (Kudo 2018)."""
    trainer = trainers.UnigramTrainer(
        vocab_size=limits.vocab_size - len(special_tokens), initial_alphabet=byte_characters(), show_progress=False
    )
    pieces = get_pieces(train_backend(models.Unigram(), trainer, texts, pre_tokenizer))
    lowest = min(pieces.values())
    for character in byte_characters():
        pieces.setdefault(character, lowest - 1)
    # Special tokens score so low that text is never segmented into them.
    return models.Unigram(vocab=[(token, NEVER_USED_SCORE) for token in special_tokens] + list(pieces.items()))


def get_pieces(backend: tokenizers.Tokenizer) -> dict[str, float]:
    """Return the pieces of a unigram model with their scores, best first; only its JSON holds them."""
    scores = {token: round(score, 9) for token, score in json.loads(backend.to_str())["model"]["vocab"]}
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))


def learn_words(texts: Iterator[str], pre_tokenizer: Any, limits: Limits, special_tokens: Sequence[str]) -> Any:
    """Make the most frequent words tokens, each with its leading space; any other word is split into bytes."""
    words = sort_by_frequency(Counter(word for text in texts for word, _ in pre_tokenizer.pre_tokenize_str(text)))
    tokens = list(dict.fromkeys([*special_tokens, *byte_characters(), *words]))[: limits.vocab_size]
    # A word in the vocabulary is one token; without merges any other is split into its bytes.
    return models.BPE(vocab=number_tokens(tokens), merges=[], ignore_merges=True)


def learn_characters(texts: Iterator[str], _: Any, limits: Limits, special_tokens: Sequence[str]) -> Any:
    """Make the most frequent characters tokens; any other is encoded as bytes."""
    tokens = [*special_tokens, *(f"<0x{byte:02X}>" for byte in range(256))]
    kept = sort_by_frequency(Counter(chain.from_iterable(texts)))[: limits.vocab_size - len(tokens)]
    # BPE without merges: one token per character, and bytes for characters without one.
    return models.BPE(vocab=number_tokens([*tokens, *sorted(kept)]), merges=[], byte_fallback=True)


def sort_by_frequency(counts: Counter[str]) -> list[str]:
    """Return the counted items, the most frequent first, ties in alphabetical order."""
    return sorted(counts, key=lambda item: (-counts[item], item))


def number_tokens(tokens: Sequence[str]) -> dict[str, int]:
    """Return the id of each token: its place in the list."""
    return {token: id_ for id_, token in enumerate(tokens)}


def join_pieces() -> Any:
    """Return a decoder that removes the mark of pieces inside a word, and maps characters back to bytes."""
    return decoders.Sequence([decoders.Replace(tokenizers.Regex(f"^{SUBWORD_PREFIX}"), ""), decoders.ByteLevel()])


def join_characters() -> Any:
    """Return a decoder that maps the names of bytes back to bytes."""
    return decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])


@dataclass(frozen=True)
class Algorithm:
    """A kind of tokenizer: how it splits text, what it learns from the pieces, how it joins them again."""

    learn: Callable[[Iterator[str], Any, Limits, Sequence[str]], Any]
    """Returns the library's model; its arguments are texts, pre-tokenizer, limits and special tokens."""
    pre_tokenizer: Callable[..., Any] = split_words
    decoder: Callable[[], Any] = join_pieces
    n_byte_tokens: int = 256
    special_may_be_words: bool = False
    """Whether a special token named like a word is still distinct from that word in the text."""


ALGORITHMS: dict[str, Algorithm] = {
    "bpe": Algorithm(learn_bpe, decoder=decoders.ByteLevel, special_may_be_words=True),
    "wordpiece": Algorithm(learn_wordpiece, split_short_words, n_byte_tokens=2 * 256),
    "unigram": Algorithm(learn_unigram),
    "words": Algorithm(learn_words),
    "characters": Algorithm(learn_characters, lambda **_: split_every(100), join_characters, special_may_be_words=True),
}

LISTED_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
MAX_LISTED_WORDS = 20_000
MAX_LISTED_LENGTH = 50
MAX_COUNTED_WORDS = 1_000_000
"""Distinct words counted before the rare ones are dropped, so that memory stays bounded."""


class WordCounter:
    """Counts the whole words of the texts a tokenizer is trained on, for words.txt of the model folder."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts unchanged, counting their words."""
        for text in texts:
            self._counts.update(word for word in LISTED_WORD.findall(text) if len(word) <= MAX_LISTED_LENGTH)
            if len(self._counts) > MAX_COUNTED_WORDS:
                self._counts = Counter(dict(self._counts.most_common(MAX_COUNTED_WORDS // 2)))
            yield text

    def words(self) -> tuple[str, ...]:
        """Return the most frequent words, ties in alphabetical order."""
        return tuple(sort_by_frequency(self._counts)[:MAX_LISTED_WORDS])
