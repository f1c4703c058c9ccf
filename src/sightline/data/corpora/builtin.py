"""Built-in corpora: a phrasebook generated from CLDR with `babel`, and the dialogues of the package chatterbot-corpus.

A recipe names one as `data.train = "builtin:phrasebook"`. It is written to a file next to the encoded corpora and read
like any other. Nothing is downloaded.
"""

import datetime
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from babel import Locale, dates, lists, numbers, units

from sightline.config import one_of
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.stateless_random import permutation
from sightline.errors import SettingsError, SightlineError
from sightline.storage import fsync

LANGUAGES = ("en", "de", "fr", "es", "pt", "it")

COUNTRIES = (
    "AR", "AT", "AU", "BE", "BR", "CA", "CH", "CL", "CN", "CO", "CZ", "DE", "DK", "EG", "ES", "FI", "FR", "GB", "GR",
    "HU", "IE", "IL", "IN", "IS", "IT", "JP", "KE", "KR", "MA", "MX", "NL", "NO", "NZ", "PE", "PL", "PT", "RO", "RU",
    "SE", "TH", "TR", "TZ", "UA", "US", "VN", "ZA",
)  # fmt: skip
NAMED_LANGUAGES = (
    "ar", "bg", "cs", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "hu", "it", "ja", "ko", "nl", "no", "pl",
    "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh",
)  # fmt: skip
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY", "BRL", "MXN", "INR", "PLN", "SEK")
UNITS = (
    "duration-second", "duration-minute", "duration-hour", "duration-day", "duration-week", "duration-month",
    "duration-year", "length-kilometer", "length-meter", "length-centimeter", "length-mile", "mass-kilogram",
    "mass-gram", "mass-pound", "volume-liter", "volume-milliliter", "temperature-celsius", "speed-kilometer-per-hour",
    "energy-kilocalorie", "digital-gigabyte",
)  # fmt: skip
TimeUnit = Literal["day", "week"]
TIME_UNITS: dict[TimeUnit, int] = {"day": 1, "week": 7}
"""Length of each in days."""
FIRST_YEAR, LAST_YEAR = 1950, 2049


@dataclass(frozen=True)
class Phrase:
    """A meaning (a date, an amount of money): the kind of phrase, and its values."""

    kind: str
    values: tuple[str | int, ...]

    @property
    def is_name(self) -> bool:
        """Whether it is a bare name, which can only be memorized."""
        return self.kind in ("country", "language")

    @property
    def year(self) -> int | None:
        """The year of a date."""
        return int(self.values[0]) if self.kind.startswith("date") else None

    def text(self, language: str) -> str:
        """Render it in a language, with plain spaces and real word order: "March 14, 2026" is "14. März 2026"."""
        return " ".join(FORMATTERS[self.kind](locale_of(language), *self.values).split())


@lru_cache
def locale_of(language: str) -> Locale:
    """Return the CLDR locale of a language."""
    return Locale.parse(language)


def format_date(locale: Locale, year: int, month: int, day: int, style: str) -> str:
    """Format a date, with or without its weekday."""
    return dates.format_date(datetime.date(year, month, day), style, locale=locale)


def format_time(locale: Locale, hour: int, minute: int) -> str:
    """Format a time of day."""
    return dates.format_time(datetime.time(hour, minute), "short", locale=locale)


def format_relative_time(locale: Locale, unit: TimeUnit, count: int) -> str:
    """Format a time relative to now, past or future."""
    delta = datetime.timedelta(days=count * TIME_UNITS[unit])
    return dates.format_timedelta(delta, granularity=unit, threshold=1000, add_direction=True, locale=locale)


def format_money(locale: Locale, cents: int, currency: str) -> str:
    """Format an amount of money."""
    return numbers.format_currency(cents / 100, currency, locale=locale, format_type="name")


def format_amount(locale: Locale, count: int, unit: str) -> str:
    """Format a quantity with its unit."""
    return units.format_unit(count, unit, "long", locale=locale)


def format_countries(locale: Locale, *codes: str) -> str:
    """Format country names, as a list if there are several."""
    return lists.format_list([locale.territories[code] for code in codes], locale=locale)


def format_languages(locale: Locale, *codes: str) -> str:
    """Format language names, as a list if there are several."""
    return lists.format_list([locale.languages[code] for code in codes], locale=locale)


FORMATTERS: dict[str, Callable[..., str]] = {
    "date": format_date,
    "date_full": format_date,
    "time": format_time,
    "distance": format_relative_time,
    "money": format_money,
    "amount": format_amount,
    "country": format_countries,
    "countries": format_countries,
    "language": format_languages,
    "languages": format_languages,
}


@dataclass(frozen=True)
class Phrasebook:
    """Training and unseen phrases: no text of an unseen phrase is in the training set, in any language.

    Every name (of a country, a unit, a month) occurs in the training set; the unseen phrases combine them with other
    numbers, days and names.
    """

    train: tuple[Phrase, ...]
    unseen: tuple[Phrase, ...]


def make_phrasebook(
    *, n_train: int, n_unseen: int, seed: int = 0, languages: Sequence[str] = LANGUAGES, n_unseen_years: int = 10
) -> Phrasebook:
    """Draw distinct phrases; dates of some years are unseen only. The same seed gives the same phrasebook.

    No two phrases share a text in any of the languages, so no source has two translations.
    """
    rng = random.Random(seed)  # noqa: S311 - not used for security
    unseen_years = frozenset(rng.sample(range(FIRST_YEAR, LAST_YEAR + 1), n_unseen_years))
    train: dict[Phrase, None] = {}
    unseen: dict[Phrase, None] = {}
    seen: set[str] = set()
    for name in bare_names():
        train[name] = None
        seen.update(name.text(language) for language in languages)
    while len(train) < n_train or len(unseen) < n_unseen:
        phrase = draw_phrase(rng)
        texts = {phrase.text(language) for language in languages}
        if texts & seen:  # a duplicate, or ambiguous in some language
            continue
        seen |= texts
        is_unseen = phrase.year in unseen_years or rng.random() * (n_train + n_unseen) < n_unseen
        split, limit = (unseen, n_unseen) if is_unseen else (train, n_train)
        if len(split) < limit:
            split[phrase] = None
    return Phrasebook(tuple(train), tuple(unseen))


def bare_names() -> list[Phrase]:
    """Return every bare name."""
    return [Phrase("country", (code,)) for code in COUNTRIES] + [
        Phrase("language", (code,)) for code in NAMED_LANGUAGES
    ]


def draw_phrase(rng: random.Random) -> Phrase:
    """Draw a random phrase."""
    kind = rng.choice([kind for kind in FORMATTERS if kind not in ("country", "language")])
    if kind.startswith("date"):
        first = datetime.date(rng.randint(FIRST_YEAR, LAST_YEAR), 1, 1)
        day = first + datetime.timedelta(days=rng.randrange(365))
        return Phrase(kind, (day.year, day.month, day.day, "full" if kind == "date_full" else "long"))
    if kind == "time":
        return Phrase(kind, (rng.randrange(24), rng.randrange(60)))
    if kind == "distance":
        return Phrase(kind, (rng.choice(list(TIME_UNITS)), rng.choice([-1, 1]) * rng.randint(2, 99)))
    if kind == "money":
        return Phrase(kind, (rng.randint(1, 99_999), rng.choice(CURRENCIES)))
    if kind == "amount":
        return Phrase(kind, (rng.randint(1, 999), rng.choice(UNITS)))
    return Phrase(kind, tuple(rng.sample(COUNTRIES if kind == "countries" else NAMED_LANGUAGES, rng.randint(2, 3))))


def directions(languages: Sequence[str] = LANGUAGES) -> list[tuple[str, str]]:
    """Return every translation direction: (source, target)."""
    return [(source, target) for source in languages for target in languages if source != target]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str
    source_language: str
    target_language: str


def translations(phrases: Iterable[Phrase], languages: Sequence[str] = LANGUAGES) -> Iterator[Pair]:
    """Yield every phrase in every direction."""
    for phrase in phrases:
        texts = {language: phrase.text(language) for language in languages}
        for source, target in directions(languages):
            yield Pair(texts[source], texts[target], source, target)


N_TRAIN, N_UNSEEN, SEED = 8_000, 500, 0
"""Phrases of the demo, and the seed they are drawn with."""

DIRECTIONS_PER_PHRASE = 8
"""Of thirty: enough to generalize to the others."""


def phrasebook() -> Phrasebook:
    """Return the training and validation phrases of the demo."""
    return make_phrasebook(n_train=N_TRAIN, n_unseen=N_UNSEEN, seed=SEED)


def training_phrases() -> Iterator[str]:
    """Yield the lines of the training set."""
    return phrase_lines(phrasebook().train, per_phrase=DIRECTIONS_PER_PHRASE)


def validation_phrases() -> Iterator[str]:
    """Yield the lines of the validation set, whose phrases are not in the training set in any direction."""
    return phrase_lines(phrasebook().unseen, per_phrase=1)


def phrase_lines(phrases: tuple[Phrase, ...], *, per_phrase: int) -> Iterator[str]:
    """Yield each phrase in some directions: source, target, target language."""
    ways = directions()
    for number, phrase in enumerate(phrases):
        texts = {language: phrase.text(language) for language in LANGUAGES}
        for way in permutation(len(ways), SEED, number)[:per_phrase].tolist():
            source, target = ways[way]
            yield f"{texts[source]}\t{texts[target]}\t{target}"


EXCLUDED_DIALOGUES = {"tech_support.yml"}
"""Half of the package's dialogues, all on one topic."""


def chatterbot_dialogues() -> Iterator[str]:
    """Yield the English dialogues of the package chatterbot-corpus."""
    if find_spec("chatterbot_corpus") is None:
        raise SettingsError(
            "the recipe chat trains on the package chatterbot-corpus by default: "
            'pip install "sightline[chat]", or train on your own dialogues with data.train=FILE'
        )
    import yaml

    folder = files("chatterbot_corpus") / "data" / "english"
    entries = sorted(
        (entry for entry in folder.iterdir() if entry.name not in EXCLUDED_DIALOGUES), key=lambda entry: entry.name
    )
    for entry in entries:
        for turns in yaml.safe_load(entry.read_text(encoding="utf-8"))["conversations"]:
            yield json.dumps({"turns": [str(turn) for turn in turns]}, ensure_ascii=False)


BUILTIN_PREFIX = "builtin:"

BUILTIN_CORPORA: dict[str, tuple[str, Callable[[], Iterator[str]], Callable[[], Iterator[str]] | None]] = {
    "phrasebook": (".tsv", training_phrases, validation_phrases),
    "chatterbot": (".jsonl", chatterbot_dialogues, None),
}
"""Name → file extension, training set, and validation set (None: held out)."""


def resolve_builtin(root: Path, data: DataSettings) -> DataSettings:
    """Replace a built-in corpus by files in `root`, written if they do not exist."""
    if not isinstance(data.train, str) or not data.train.startswith(BUILTIN_PREFIX):
        return data
    name = data.train.removeprefix(BUILTIN_PREFIX)
    if name not in BUILTIN_CORPORA:
        raise SettingsError(
            f"data.train: there is no built-in corpus {name[:40]!r}, only {one_of(BUILTIN_CORPORA, name)}"
        )
    suffix, train, valid = BUILTIN_CORPORA[name]
    own_valid = None if data.valid is None else tuple(map(str, data.files("valid")))
    found = replace(data, folder=None, train=str(write_corpus(root, f"{name}-train", suffix, train)), valid=own_valid)
    if valid is not None and own_valid is None:
        found = replace(found, valid=str(write_corpus(root, f"{name}-valid", suffix, valid)))
    return found


def write_corpus(root: Path, name: str, suffix: str, lines: Callable[[], Iterator[str]]) -> Path:
    """Write lines to a file whose name contains their hash, and return its path."""
    data = "".join(f"{line}\n" for line in lines()).encode("utf-8")
    path = root / f"{name}-{sha256(data).hexdigest()[:12]}{suffix}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            new = path.with_name(f"{path.name}.tmp-new")
            new.write_bytes(data)
            fsync(new)
            new.rename(path)
    except OSError as error:
        raise SightlineError(f"{path}: the built-in corpus cannot be written: {error.strerror}") from None
    return path
