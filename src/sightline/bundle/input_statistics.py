"""What the inputs of a model looked like in training, to notice one that is unlike them.

Two measures, both of the model's own words: the share of words that never occurred in the inputs it was trained on, and
the share of letters in scripts that they hardly contain. Their limits come from the validation inputs, which are of the
same kind but were not trained on: an input beyond what 99 % of them reach is unlike anything the model has seen.
Punctuation and digits do not count. No model is needed, only its tokenizer and word list.
"""

import base64
import binascii
import functools
import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.config import Checks
from sightline.data.tokenizers.training import LISTED_WORD, MAX_LISTED_WORDS

if TYPE_CHECKING:
    from sightline.data.tokenizers import Tokenizer

MAX_SCRIPTS = 100
MAX_TOKEN_BITS = 1 << 22
USUAL_SHARE = 0.99
"""Share of the validation inputs within the limits."""
MIN_LIMIT = 0.2
"""Share of unseen words or letters that is never worth a note: a name in a sentence."""
MIN_SCRIPT_SHARE = 0.001
"""Share of letters below which a script counts as foreign: a stray quotation."""
MAX_NAMED_WORDS = 4
MAX_CHECKED_LENGTH = 10_000
"""Characters of a text that are looked at."""


@dataclass(frozen=True)
class InputStatistics:
    """What the inputs of training contain, and what is usual among those of the validation set."""

    seen_tokens: str
    """One bit for each id of the tokenizer, lowest first, in base64: whether it occurred in the inputs of training."""
    scripts: tuple[str, ...] = ()
    """Scripts of the letters in the validation inputs, such as LATIN, the most frequent first."""
    max_unseen_words: float = 1.0
    """Share of unseen words that is usual."""
    max_foreign_letters: float = 1.0
    """Share of letters in other scripts that is usual."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(len(self.scripts) <= MAX_SCRIPTS, f"{len(self.scripts):,} scripts are more than {MAX_SCRIPTS}")
        checks.that(max(map(len, self.scripts), default=0) <= MAX_SCRIPTS, "the name of a script is too long")
        checks.between(0, 1, max_unseen_words=self.max_unseen_words, max_foreign_letters=self.max_foreign_letters)
        try:
            n_bits = 8 * len(base64.b64decode(self.seen_tokens, validate=True))
            checks.that(n_bits <= MAX_TOKEN_BITS, f"seen_tokens has {n_bits:,} bits, more than {MAX_TOKEN_BITS:,}")
        except (binascii.Error, ValueError):
            checks.that(False, "seen_tokens is not base64")
        checks.done()

    @functools.cached_property
    def token_bits(self) -> bytes:
        """The bits of `seen_tokens`."""
        return base64.b64decode(self.seen_tokens)

    def has_seen(self, token_id: int) -> bool:
        """Tell whether a token occurred in the inputs of training."""
        at, bit = divmod(token_id, 8)
        return at < len(self.token_bits) and bool(self.token_bits[at] >> bit & 1)


@dataclass(frozen=True)
class KnownWords:
    """The words that the inputs of training contained, by the model's word list and its tokens."""

    tokenizer: "Tokenizer"
    words: frozenset[str]
    """In lower case; empty for a model without a word list, whose words are known by their tokens."""
    statistics: InputStatistics
    is_complete: bool = True
    """False if the list holds the most frequent words only."""

    @classmethod
    def of(cls, tokenizer: "Tokenizer", words: Sequence[str], statistics: InputStatistics) -> "KnownWords":
        """Return the known words of a model."""
        listed = frozenset(word.casefold() for word in words)
        return cls(tokenizer, listed, statistics, is_complete=len(words) < MAX_LISTED_WORDS)

    def split(self, text: str) -> tuple[list[str], list[str]]:
        """Return all words of a text, and those that are not known: not listed, or with a token never read."""
        ids, spans = self.tokenizer.encode_with_offsets(text)
        strange = [span for id_, span in zip(ids, spans, strict=True) if not self.statistics.has_seen(id_)]
        every, unseen, at = [], [], 0
        for match in LISTED_WORD.finditer(text):
            word, start, end = match[0], *match.span()
            while at < len(strange) and strange[at][1] <= start:
                at += 1
            every.append(word)
            has_strange_token = at < len(strange) and strange[at][0] < end
            if has_strange_token or (self.words and word.casefold() not in self.words):
                unseen.append(word)
        return every, unseen


@dataclass(frozen=True)
class UnfamiliarInput:
    """Why an input is unlike anything its model has seen."""

    note: str
    """A sentence for people."""
    unseen_words: tuple[str, ...]
    n_words: int


def collect_input_statistics(
    texts: Sequence[str], tokenizer: "Tokenizer", words: Sequence[str], seen_ids: Iterable[int]
) -> InputStatistics:
    """Measure validation inputs, for a model that was trained on inputs with these token ids."""
    bits = bytearray(-(-tokenizer.vocab_size // 8))
    for id_ in (*seen_ids, *tokenizer.special_ids):
        if id_ < tokenizer.vocab_size:
            bits[id_ // 8] |= 1 << id_ % 8
    letters = Counter(script for text in texts for script in map(find_script, text) if script)
    least = MIN_SCRIPT_SHARE * sum(letters.values())
    scripts = tuple(script for script, n in letters.most_common(MAX_SCRIPTS) if n >= least)
    statistics = InputStatistics(base64.b64encode(bytes(bits)).decode("ascii"), scripts)
    known = KnownWords.of(tokenizer, words, statistics)
    unseen = [share(len(strange), len(every)) for every, strange in map(known.split, texts)]
    foreign = [share_foreign_letters(text, scripts) for text in texts]
    return InputStatistics(statistics.seen_tokens, scripts, usual_maximum(unseen), usual_maximum(foreign))


def find_unfamiliar(text: str, known: KnownWords) -> UnfamiliarInput | None:
    """Return why a text is unlike the inputs of training; None if it is like them."""
    statistics, text = known.statistics, text[:MAX_CHECKED_LENGTH]
    every, unseen = known.split(text)
    if share_foreign_letters(text, statistics.scripts) > statistics.max_foreign_letters:
        others = Counter(script for script in map(find_script, text) if script and script not in statistics.scripts)
        script = others.most_common(1)[0][0].title()
        note = f"The model was trained on hardly any text in the script of this one ({script})"
    elif share(len(unseen), len(every)) > statistics.max_unseen_words:
        note = describe_unseen(every, unseen, known)
    else:
        return None
    return UnfamiliarInput(f"{note}. Expect nonsense.", tuple(unseen), len(every))


def describe_unseen(every: Sequence[str], unseen: Sequence[str], known: KnownWords) -> str:
    """Return the beginning of a sentence about unseen words, with the first of them."""
    distinct = list(dict.fromkeys(unseen))
    named = ", ".join(f"“{word}”" for word in distinct[:MAX_NAMED_WORDS])
    more = ", …" if len(distinct) > MAX_NAMED_WORDS else ""
    where = "never occurred" if known.is_complete else "never or hardly ever occurred"
    count = f"{len(unseen)} of {len(every)} words"
    if len(unseen) == len(every):
        count = "The only word" if len(every) == 1 else f"All {len(every)} words"
    return f"{count} ({named}{more}) {where} in what the model was trained to read"


def find_script(character: str) -> str | None:
    """Return the script of a letter, such as LATIN or CJK; None for anything else."""
    if not character.isalpha():
        return None
    return unicodedata.name(character, "UNKNOWN").split(maxsplit=1)[0]


def share_foreign_letters(text: str, scripts: Collection[str]) -> float:
    """Return the share of letters in other scripts than these."""
    found = [script for script in map(find_script, text) if script]
    return share(sum(script not in scripts for script in found), len(found))


def share(part: int, whole: int) -> float:
    """Return a share; that of nothing is 0."""
    return part / whole if whole else 0.0


def usual_maximum(shares: Sequence[float]) -> float:
    """Return the limit that all but the most unusual shares keep to."""
    if not shares:
        return 1.0
    at = min(len(shares) - 1, math.ceil(USUAL_SHARE * len(shares)) - 1)
    return max(MIN_LIMIT, sorted(shares)[at])
