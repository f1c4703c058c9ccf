"""Cleaning: rules that find what is wrong with a pair, a labeled text or a line, each with a count and examples.

Nothing is known of languages. What is usual on each side (scripts, character trigrams, length) is learned from a sample
of the file itself, and a text is flagged if it clearly fits the other side better, or is unlike its own. Memory is
bounded: the sample and the table of fingerprints have a fixed size.
"""

import html
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from sightline.config import Checks, unknown_name
from sightline.data.corpora.files import CONTROLS, FAULTS
from sightline.data.corpora.records import Record
from sightline.errors import InputError

Kind = Literal["pairs", "labeled", "text"]
"""What a record is: a text and its translation, a text (or two) with a label, or a line of running text."""

PAIRS_ONLY = frozenset({"too_long", "length_ratio", "identical", "swapped", "wrong_language", "numbers"})
"""Rules that compare two sides, or are about sentences; running text also has lines without a letter."""


def rules_for(kind: Kind) -> tuple[str, ...]:
    """Return the rules that apply to a kind of record."""
    left_out = {"pairs": frozenset(), "labeled": PAIRS_ONLY, "text": PAIRS_ONLY | {"empty"}}[kind]
    return tuple(name for name in FAULTS if name not in left_out)


@dataclass(frozen=True, kw_only=True)
class CleaningSettings:
    """Which rules are used, and their thresholds."""

    rules: tuple[str, ...] = tuple(FAULTS)
    max_characters: int = field(default=1_000, metadata={"help": "characters of a side (rule too_long)"})
    max_ratio: float = field(
        default=3.0, metadata={"help": "length of one side in lengths of the other, as usual here (length_ratio)"}
    )
    min_evidence: float = field(
        default=10.0,
        metadata={"help": "log-likelihood ratio from which a text is in the other language (swapped, wrong_language)"},
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        for name in self.rules:
            checks.that(name in FAULTS, f"{unknown_name(name, FAULTS, what='rule')}: the rules are {', '.join(FAULTS)}")
        checks.that(bool(self.rules), "no rule is left")
        checks.between(1, 1_000_000, max_characters=self.max_characters)
        checks.between(1.1, 1_000.0, max_ratio=self.max_ratio)
        checks.between(1.0, 1_000.0, min_evidence=self.min_evidence)
        checks.done()


# What is usual: scripts, trigrams and lengths of each side

SAMPLE_RECORDS = 20_000
"""Records that profiles are learned from, spread evenly over the corpus."""
SAMPLE_TEXT = 300
"""Characters of a text that are looked at to tell its language, or that of its source."""
MIN_SCRIPT_SHARE = 0.03
"""Share of a side's letters from which a script is one of its own: Japanese has three."""
MIN_LABEL_SCRIPT_SHARE = 0.1
"""Share of the letters of a label's texts from which a script goes with the label."""
MIN_RATIO_PAIRS = 10
"""Pairs of a language from which their usual ratio of lengths can be told."""
SMOOTHING = 0.5


@dataclass(frozen=True)
class Profile:
    """What is usual in a corpus."""

    scripts: tuple[frozenset[str], ...] = ()
    """The scripts of each side; empty: not known."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Trigram → how much it speaks for the first side, as a log-likelihood ratio; empty: not known."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Usual length of the second side in lengths of the first, by the group of a pair (`group_of`)."""
    label_scripts: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """The scripts of each side beside a label, by the group of a labeled text."""


def sample_evenly(records: Iterable[Record]) -> list[Record]:
    """Return up to `SAMPLE_RECORDS` records in equal distances, whatever their number."""
    sample: list[Record] = []
    stride = 1
    for number, record in enumerate(records):
        if number % stride == 0:
            sample.append(record)
            if len(sample) == 2 * SAMPLE_RECORDS:
                sample, stride = sample[::2], 2 * stride
    return sample


def learn_profile(records: Iterable[Record], text_fields: Sequence[int], *, kind: Kind) -> Profile:
    """Learn what is usual from a sample of the records; of pairs, also what tells the sides from each other."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for record in sample_evenly(records):
        groups.setdefault(group_of(record, text_fields, kind=kind), []).append(texts_of(record, text_fields))
    if not groups:
        return Profile()
    if kind != "pairs":
        return learn_scripts(groups)
    if set(groups) != {NO_GROUP}:  # each side has many languages
        usual = {name: find_ratio(pairs) for name, pairs in groups.items() if len(pairs) >= MIN_RATIO_PAIRS}
        return Profile(ratios={name: ratio for name, ratio in usual.items() if ratio is not None})
    pairs = groups[NO_GROUP]
    ratio = find_ratio(pairs)
    ratios = {} if ratio is None else {NO_GROUP: ratio}
    return Profile(learn_scripts(groups).scripts, weigh_trigrams(*zip(*pairs, strict=True)), ratios)


NO_GROUP = ""
"""The group of records without a label or language."""


def group_of(record: Record, text_fields: Sequence[int], *, kind: Kind) -> str:
    """Return the records that one is compared with: those of its label; of pairs, those of its direction.

    A direction is the language of the target, which a column names, and the script of the source.
    """
    if len(record.fields) == len(text_fields):
        return NO_GROUP
    name = record.fields[-1]
    if not isinstance(name, str):  # a label for each word
        return NO_GROUP
    if kind != "pairs":
        return name
    letters = count_scripts(texts_of(record, text_fields)[0][:SAMPLE_TEXT])
    return f"{name} from {max(letters, key=lambda script: letters[script], default='')}"


def find_ratio(pairs: Iterable[Sequence[str]]) -> float | None:
    """Return the usual length of the second side in lengths of the first: the median."""
    ratios = sorted(len(target) / len(source) for source, target in pairs if source and target)
    return ratios[len(ratios) // 2] if ratios else None


def learn_scripts(groups: Mapping[str, Sequence[Sequence[str]]]) -> Profile:
    """Learn the scripts of each side, and those that go with a label: a class may be a language."""
    by_group = {name: [count_letters(side) for side in zip(*texts, strict=True)] for name, texts in groups.items()}
    letters = [sum_counts(counts) for counts in zip(*by_group.values(), strict=True)]
    scripts = tuple(find_scripts(side, MIN_SCRIPT_SHARE) for side in letters)
    return Profile(
        scripts,
        label_scripts={
            name: tuple(
                usual | find_scripts(side, MIN_LABEL_SCRIPT_SHARE) for usual, side in zip(scripts, sides, strict=True)
            )
            for name, sides in by_group.items()
        },
    )


def find_scripts(letters: Counter[str], min_share: float) -> frozenset[str]:
    """Return the scripts that a noticeable share of the letters are in."""
    return frozenset(script for script, count in letters.items() if count >= min_share * letters.total())


def count_letters(texts: Iterable[str]) -> Counter[str]:
    """Count the letters of texts by script."""
    return sum_counts(map(count_scripts, texts))


def sum_counts(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Return the sum of counts."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def count_scripts(text: str) -> Counter[str]:
    """Count the letters of a text by script."""
    if text.isascii():
        return Counter(LATIN=sum(map(str.isalpha, text)))
    return Counter(script_of(character) for character in text if character.isalpha())


@lru_cache(maxsize=1 << 16)
def script_of(letter: str) -> str:
    """Return the script of a letter: the first word of its Unicode name."""
    return unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]


def weigh_trigrams(first: Iterable[str], second: Iterable[str]) -> dict[str, float]:
    """Return for each trigram how much more likely it is on the first side than on the second."""
    counts = [Counter(trigram for text in side for trigram in split_trigrams(text)) for side in (first, second)]
    totals = [count.total() for count in counts]
    known = {trigram for count in counts for trigram, number in count.items() if number > 1}
    if not all(totals):
        return {}
    size = SMOOTHING * len(known)
    return {
        trigram: math.log((counts[0][trigram] + SMOOTHING) / (totals[0] + size))
        - math.log((counts[1][trigram] + SMOOTHING) / (totals[1] + size))
        for trigram in known
    }


def split_trigrams(text: str) -> list[str]:
    """Return the trigrams of the words of a text, with their borders; digits and punctuation say nothing."""
    letters = NOT_LETTERS.sub(" ", f" {text[:SAMPLE_TEXT].casefold()} ")
    return [letters[at : at + 3] for at in range(len(letters) - 2)]


NOT_LETTERS = re.compile(r"[\W\d_]+")


# The rules

MIN_TRIGRAMS = 12
"""Trigrams from which the language of a text can be told."""
MIN_MEAN_EVIDENCE = 0.4
"""Mean of a text's trigrams from which it is in the other language, however long it is."""
RATIO_SLACK = 15
"""Characters by which a short text may differ more."""
MIN_DUPLICATE = 50
"""Characters of a line of running text whose repetition is no accident."""


@dataclass(frozen=True)
class Finding:
    """A record that would be dropped, and the rules that say so."""

    record: Record
    rules: tuple[str, ...]


class Cleaner:
    """Applies the rules to the records of a corpus, one after the other."""

    def __init__(
        self, kind: Kind, text_fields: Sequence[int], profile: Profile, settings: CleaningSettings | None = None
    ) -> None:
        self._kind, self._text_fields, self._profile = kind, tuple(text_fields), profile
        self._settings = settings or CleaningSettings()
        self.rules = tuple(name for name in rules_for(kind) if name in self._settings.rules)
        self._exact, self._near = Fingerprints(), Fingerprints()
        checks: dict[str, Callable[[Sequence[str], str], bool]] = {
            "empty": lambda texts, _: not all(map(has_content, texts)),
            "too_long": lambda texts, _: max(map(len, texts)) > self._settings.max_characters,
            "length_ratio": self._is_lopsided,
            "wrong_script": self._has_wrong_script,
            "numbers": lambda texts, _: numbers_differ(texts[0], texts[1]),
            "encoding": lambda texts, _: any(map(is_mojibake, texts)),
            "markup": lambda texts, _: any(map(has_markup, texts)),
            "controls": lambda texts, _: any(map(CONTROLS.search, texts)),
        }
        self._checks = [(name, checks[name]) for name in self.rules if name in checks]

    def find_faults(self, record: Record) -> tuple[str, ...]:
        """Return the rules that would drop a record; it counts as seen from now on."""
        texts = texts_of(record, self._text_fields)
        plain = [normalize(text) for text in texts]
        group = group_of(record, self._text_fields, kind=self._kind)
        found = {name for name, check in self._checks if check(texts, group)}
        if "empty" in found:
            found -= PAIRS_ONLY  # there is nothing to compare
        elif self._kind == "pairs":
            if plain[0] == plain[1]:
                found.add("identical")
            if not found & {"identical", "wrong_script"}:
                found |= self._find_foreign_sides(texts)
        found |= self._find_repetition(record, plain)
        return tuple(name for name in self.rules if name in found)

    def _is_lopsided(self, texts: Sequence[str], group: str) -> bool:
        ratio = self._profile.ratios.get(group)
        if ratio is None:  # not known
            return False
        first, second = len(texts[0].strip()) * ratio, float(len(texts[1].strip()))
        return max(first, second) > self._settings.max_ratio * min(first, second) + RATIO_SLACK

    def _has_wrong_script(self, texts: Sequence[str], group: str) -> bool:
        usual = self._profile.label_scripts.get(group, self._profile.scripts)
        for text, scripts in zip(texts, usual, strict=False):
            if text.isascii() and "LATIN" in scripts:
                continue
            letters = count_scripts(text)
            if letters.total() > 1 and 2 * sum(letters[script] for script in scripts) < letters.total():
                return True
        return False

    def _find_foreign_sides(self, texts: Sequence[str]) -> set[str]:
        """Return whether both sides, or one of them, fit the other side clearly better than their own."""
        if not self._profile.evidence:
            return set()
        first, second = self._weigh(texts[0], -1), self._weigh(texts[1], 1)
        both = (first[0] + second[0], first[1] + second[1])
        if first[0] > 0 and second[0] > 0 and self._is_clear(both, sides=2):
            return {"swapped"}
        return {"wrong_language"} if self._is_clear(first) or self._is_clear(second) else set()

    def _weigh(self, text: str, sign: int) -> tuple[float, int]:
        """Return how much a text fits the other side better than its own, and its number of trigrams."""
        trigrams, evidence = split_trigrams(text), self._profile.evidence
        return sign * sum([evidence.get(trigram, 0.0) for trigram in trigrams], 0.0), len(trigrams)

    def _is_clear(self, weight: tuple[float, int], *, sides: int = 1) -> bool:
        total, n_trigrams = weight
        if n_trigrams < sides * MIN_TRIGRAMS:
            return False
        return total > sides * self._settings.min_evidence and total > MIN_MEAN_EVIDENCE * n_trigrams

    def _find_repetition(self, record: Record, plain: Sequence[str]) -> set[str]:
        if self._kind == "text" and len(plain[0]) < MIN_DUPLICATE:
            return set()
        rest = [part for number, part in enumerate(record.fields) if number not in self._text_fields]
        seen = self._exact.add(repr(record.fields))
        near = self._near.add(repr([*plain, *rest]))
        return {"duplicate"} if seen else {"near_duplicate"} if near else set()


def has_content(text: str) -> bool:
    """Return whether a text has a letter or digit."""
    return any(map(str.isalnum, text))


class WordCharacters(dict[int, str]):
    """Maps spaces, punctuation, symbols and controls to a space; letters, digits and vowel signs to themselves."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = " " if unicodedata.category(character)[0] in "PSZC" else character
        return self[code]


WORD_CHARACTERS = WordCharacters()


def normalize(text: str) -> str:
    """Return a text without case, spacing and punctuation; of one that is nothing else, the text."""
    composed = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(composed.casefold().translate(WORD_CHARACTERS).split()) or text.strip()


NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
DIGIT = re.compile(r"\d")
TIME = re.compile(r"(\d{1,2})[:.h](\d{2})(?!\d)")
MIN_SURE_DIGITS = 3
"""Digits of a number that is hardly ever written as a word on the other side."""


def numbers_differ(source: str, target: str) -> bool:
    """Return whether the digits of two texts cannot be the same numbers.

    Thousands and decimals may be marked otherwise, a time may be on a clock of 12 or 24 hours, and a short number may
    be a word on one side.
    """
    if not DIGIT.search(source) and not DIGIT.search(target):
        return False
    first, second = ([digits_of(number) for number in NUMBER.findall(text)] for text in (source, target))
    if sorted(first) == sorted(second) or sorted("".join(first)) == sorted("".join(second)):
        return False
    if not first or not second:
        return any(len(number) >= MIN_SURE_DIGITS for number in first + second)
    times = [sorted((int(hour) % 12, minute) for hour, minute in TIME.findall(text)) for text in (source, target)]
    if times[0] and times[0] == times[1]:
        rest = [sorted(map(digits_of, NUMBER.findall(TIME.sub(" ", text)))) for text in (source, target)]
        return rest[0] != rest[1]
    left, right = Counter(first), Counter(second)
    extra = [*(left - right).elements(), *(right - left).elements()]
    both = bool(left - right) and bool(right - left)
    return both or any(len(number) >= MIN_SURE_DIGITS for number in extra)


def digits_of(number: str) -> str:
    """Return the digits of a number without marks between them, leading zeros, and decimals of zero."""
    digits = "".join(str(unicodedata.digit(mark, "")) for mark in re.sub(r"[.,]00?$", "", number))
    return digits.lstrip("0") or "0"


CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
"""Characters that the later bytes of a UTF-8 character become when it is read as Windows-1252 or Latin-1."""
SURE_CONTINUATION = "[\x80-\x9f¡-ª¬-²´-ºʼ¼-¿€ƒ†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ]"
"""Those that hardly follow a letter otherwise, as closing quotes and dashes do."""
MOJIBAKE = re.compile(
    "\ufffd|[\x80-\x84\x86-\x9f]"  # replaced, or control characters that nobody types
    f"|[ÂÃ]{CONTINUATION}|[ÄÅ](?:{SURE_CONTINUATION}|{CONTINUATION}(?=[a-z]))"  # Latin letters and punctuation
    f"|â[€‚„†ˆ‰˜™š›œ\x80-\x9f]{CONTINUATION}|ðŸ{CONTINUATION}|ï¿½|ï»¿"  # punctuation, signs, emoji
    f"|(?:[ÎÏÐ-Û]{CONTINUATION}){{2}}"  # Greek, Cyrillic, Hebrew, Arabic
    f"|(?:[à-ï]{CONTINUATION}{{2}}){{2}}"  # scripts of three bytes a letter
)


def is_mojibake(text: str) -> bool:
    """Return whether a text was decoded by the wrong encoding: "Ã¤" for "ä", or U+FFFD."""
    return not text.isascii() and MOJIBAKE.search(text) is not None


TAGS = (
    "a|abbr|b|big|blockquote|body|br|button|center|code|dd|div|dl|dt|em|font|footer|form|h[1-6]|head|header|hr|html|i|"
    "iframe|img|input|ins|label|li|link|main|meta|nav|ol|option|p|pre|s|script|section|small|span|strong|style|sub|sup|"
    "table|tbody|td|th|thead|title|tr|u|ul"
)
TAG = re.compile(rf"<(?:!--|(?:/?(?:{TAGS})(?:\s[^<>]*)?/?|!doctype[^<>]*)>)", re.IGNORECASE)
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)


def has_markup(text: str) -> bool:
    """Return whether a text has tags or entities of HTML."""
    if "<" in text and TAG.search(text):
        return True
    return "&" in text and any(html.unescape(entity) != entity for entity in ENTITY.findall(text))


MAX_FINGERPRINTS = 1 << 22
"""Fingerprints that repetitions are compared with; in a larger corpus early ones give way to later ones."""
PROBES = 8
"""Places of the table where a fingerprint may be."""


class Fingerprints:
    """A set of texts in bounded memory: a hash of 64 bits each, in a table that grows up to a limit."""

    def __init__(self) -> None:
        self._limit, self._n = 2 * MAX_FINGERPRINTS, 0
        self._table = array("Q", bytes(8 << 10))

    def add(self, text: str) -> bool:
        """Add a text; return whether it was there already."""
        data = blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).digest()
        if self._insert(int.from_bytes(data, "little") or 1):
            return True
        self._n += 1
        if 2 * self._n > len(self._table) < self._limit:
            self._grow()
        return False

    def _insert(self, fingerprint: int) -> bool:
        table, size = self._table, len(self._table)
        at = fingerprint % size
        for probe in range(PROBES):
            at = (fingerprint + probe) % size
            if table[at] == fingerprint:
                return True
            if not table[at]:
                break
        table[at] = fingerprint  # if all places are taken, in the last one
        return False

    def _grow(self) -> None:
        old, self._table = self._table, array("Q", bytes(16 * len(self._table)))
        for fingerprint in old:
            if fingerprint:
                self._insert(fingerprint)


def texts_of(record: Record, text_fields: Sequence[int]) -> tuple[str, ...]:
    """Return the texts of a record; words that are listed one by one become one text."""
    parts = [record.fields[number] for number in text_fields]
    return tuple(part if isinstance(part, str) else " ".join(part) for part in parts)


# The report


class CleaningReport:
    """What the rules found: counts by rule, each record once in the total, and the first examples of each rule."""

    def __init__(self, rules: Iterable[str], *, n_examples: int = 3) -> None:
        self.counts: dict[str, int] = dict.fromkeys(rules, 0)
        self.examples: dict[str, list[Finding]] = {name: [] for name in self.counts}
        self.total = self.dropped = 0
        self._n_examples = n_examples

    def add(self, record: Record, faults: tuple[str, ...]) -> None:
        """Count a record."""
        self.total += 1
        self.dropped += bool(faults)
        for name in faults:
            self.counts[name] += 1
            if len(self.examples[name]) < self._n_examples:
                self.examples[name].append(Finding(record, faults))

    def to_mapping(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "records": self.total,
            "dropped": self.dropped,
            "kept": self.total - self.dropped,
            "rules": {
                name: {
                    "count": count,
                    "share": count / max(1, self.total),
                    "drops": FAULTS[name],
                    "examples": [
                        {
                            "file": str(finding.record.location.path),
                            "line": finding.record.location.line,
                            "fields": list(finding.record.fields),
                            "rules": list(finding.rules),
                        }
                        for finding in self.examples[name]
                    ],
                }
                for name, count in self.counts.items()
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        width = max(map(len, self.counts))
        for name, count in self.counts.items():
            share = 100 * count / max(1, self.total)
            yield f"{name:{width}}  {count:>9,}  {share:6.2f} %  {FAULTS[name]}"
            for finding in self.examples[name]:
                shown = " | ".join(shorten(str(text)) for text in finding.record.fields)
                yield f"{'':{width}}  {finding.record.location}: {shown}"
        yield (
            f"{'total':{width}}  {self.dropped:>9,}  {100 * self.dropped / max(1, self.total):6.2f} %  "
            f"of {self.total:,} would be dropped, {self.total - self.dropped:,} kept"
        )


def shorten(text: str, width: int = 70) -> str:
    """Return a text on one line, with what cannot be printed escaped."""
    shown = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text[: width + 1])
    return shown if len(text) <= width else f"{shown[: width - 2]} …"


def choose_rules(rules: Sequence[str], skipped: Sequence[str]) -> tuple[str, ...]:
    """Return the rules to use: those named, or all, without the skipped ones; an unknown name is refused."""
    for option, names in {"rules": rules, "skip_rule": skipped}.items():
        for name in names:
            if name not in FAULTS:
                known = ", ".join(FAULTS)
                raise InputError(f"{unknown_name(name, FAULTS, what='rule')}: the rules are {known}", option=option)
    chosen = tuple(name for name in rules or FAULTS if name not in skipped)
    if not chosen:
        raise InputError("no rule is left", option="skip_rule")
    return chosen
