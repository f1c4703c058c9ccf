"""A corpus the program makes itself: phrases in several languages, from CLDR through `babel`.

A `Phrase` is a meaning (this date, that sum of money); `text` says it in a language. Nothing is downloaded, and the
translations are real ones, word order included: "March 14, 2026" is "14. März 2026". Every name (of a country, a unit,
a month) stands in the training part; what is unseen is its combination with numbers, days and other names.
"""

import datetime
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from babel import Locale, dates, lists, numbers, units

LANGUAGES = ("en", "de", "fr", "es", "pt", "it")

COUNTRIES = (
    "AR", "AT", "AU", "BE", "BR", "CA", "CH", "CL", "CN", "CO", "CZ", "DE", "DK", "EG", "ES", "FI", "FR", "GB", "GR",
    "HU", "IE", "IL", "IN", "IS", "IT", "JP", "KE", "KR", "MA", "MX", "NL", "NO", "NZ", "PE", "PL", "PT", "RO", "RU",
    "SE", "TH", "TR", "TZ", "UA", "US", "VN", "ZA",
)  # fmt: skip
TONGUES = (
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
Span = Literal["day", "week"]
SPANS: dict[Span, int] = {"day": 1, "week": 7}
"""Days of each."""
FIRST_YEAR, LAST_YEAR = 1950, 2049


@dataclass(frozen=True)
class Phrase:
    """A meaning: what kind of thing is said, and the particulars."""

    kind: str
    particulars: tuple[str | int, ...]

    @property
    def is_name(self) -> bool:
        """Whether it is a bare name, which can only be known by heart."""
        return self.kind in ("country", "tongue")

    @property
    def year(self) -> int | None:
        """The year of a date."""
        return int(self.particulars[0]) if self.kind.startswith("date") else None

    def text(self, language: str) -> str:
        """Say it, with plain spaces, as people type them."""
        return " ".join(SAY[self.kind](locale_of(language), *self.particulars).split())


@lru_cache
def locale_of(language: str) -> Locale:
    """Return what CLDR knows of a language."""
    return Locale.parse(language)


def say_date(locale: Locale, year: int, month: int, day: int, style: str) -> str:
    """Say a day, with or without its weekday."""
    return dates.format_date(datetime.date(year, month, day), style, locale=locale)


def say_time(locale: Locale, hour: int, minute: int) -> str:
    """Say a time of day."""
    return dates.format_time(datetime.time(hour, minute), "short", locale=locale)


def say_distance(locale: Locale, span: Span, count: int) -> str:
    """Say how long ago something was, or when it will be."""
    delta = datetime.timedelta(days=count * SPANS[span])
    return dates.format_timedelta(delta, granularity=span, threshold=1000, add_direction=True, locale=locale)


def say_money(locale: Locale, cents: int, currency: str) -> str:
    """Say a sum of money."""
    return numbers.format_currency(cents / 100, currency, locale=locale, format_type="name")


def say_amount(locale: Locale, count: int, unit: str) -> str:
    """Say so many of a unit."""
    return units.format_unit(count, unit, "long", locale=locale)


def say_countries(locale: Locale, *codes: str) -> str:
    """Say the names of countries, as a list where there are several."""
    return lists.format_list([locale.territories[code] for code in codes], locale=locale)


def say_tongues(locale: Locale, *codes: str) -> str:
    """Say the names of languages, as a list where there are several."""
    return lists.format_list([locale.languages[code] for code in codes], locale=locale)


SAY: dict[str, Callable[..., str]] = {
    "date": say_date,
    "date_full": say_date,
    "time": say_time,
    "distance": say_distance,
    "money": say_money,
    "amount": say_amount,
    "country": say_countries,
    "countries": say_countries,
    "tongue": say_tongues,
    "tongues": say_tongues,
}


def names() -> list[Phrase]:
    """Return every bare name."""
    return [Phrase("country", (code,)) for code in COUNTRIES] + [Phrase("tongue", (code,)) for code in TONGUES]


def draw(chance: random.Random) -> Phrase:
    """Think of something to say."""
    kind = chance.choice([kind for kind in SAY if kind not in ("country", "tongue")])
    if kind.startswith("date"):
        first = datetime.date(chance.randint(FIRST_YEAR, LAST_YEAR), 1, 1)
        day = first + datetime.timedelta(days=chance.randrange(365))
        return Phrase(kind, (day.year, day.month, day.day, "full" if kind == "date_full" else "long"))
    if kind == "time":
        return Phrase(kind, (chance.randrange(24), chance.randrange(60)))
    if kind == "distance":
        return Phrase(kind, (chance.choice(list(SPANS)), chance.choice([-1, 1]) * chance.randint(2, 99)))
    if kind == "money":
        return Phrase(kind, (chance.randint(1, 99_999), chance.choice(CURRENCIES)))
    if kind == "amount":
        return Phrase(kind, (chance.randint(1, 999), chance.choice(UNITS)))
    return Phrase(kind, tuple(chance.sample(COUNTRIES if kind == "countries" else TONGUES, chance.randint(2, 3))))


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str
    source_language: str
    target_language: str


@dataclass(frozen=True)
class Phrasebook:
    """What is learned from, and what is asked afterwards: no text of the second is in the first, in any language."""

    train: tuple[Phrase, ...]
    unseen: tuple[Phrase, ...]


def make_phrasebook(
    *, n_train: int, n_unseen: int, seed: int = 0, languages: Sequence[str] = LANGUAGES, n_unseen_years: int = 10
) -> Phrasebook:
    """Draw different phrases, dates of some years among the unseen ones only; the same seed gives the same book.

    No two phrases share a text in any of the languages, so no source has two answers.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret hangs on it
    unseen_years = frozenset(chance.sample(range(FIRST_YEAR, LAST_YEAR + 1), n_unseen_years))
    train: dict[Phrase, None] = {}
    unseen: dict[Phrase, None] = {}
    said: set[str] = set()
    for name in names():
        train[name] = None
        said.update(name.text(language) for language in languages)
    while len(train) < n_train or len(unseen) < n_unseen:
        phrase = draw(chance)
        texts = {phrase.text(language) for language in languages}
        if texts & said:  # said already, or said by another phrase in some language: no use as a question
            continue
        said |= texts
        is_unseen = phrase.year in unseen_years or chance.random() * (n_train + n_unseen) < n_unseen
        place, limit = (unseen, n_unseen) if is_unseen else (train, n_train)
        if len(place) < limit:
            place[phrase] = None
    return Phrasebook(tuple(train), tuple(unseen))


def directions(languages: Sequence[str] = LANGUAGES) -> list[tuple[str, str]]:
    """Return every way to translate."""
    return [(source, target) for source in languages for target in languages if source != target]


def translations(phrases: Iterable[Phrase], languages: Sequence[str] = LANGUAGES) -> Iterator[Pair]:
    """Yield every phrase in every direction."""
    for phrase in phrases:
        said = {language: phrase.text(language) for language in languages}
        for source, target in directions(languages):
            yield Pair(said[source], said[target], source, target)
