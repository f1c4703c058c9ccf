"""The synthetic parallel corpus."""

import pytest

from sightline.data.corpora.builtin import LANGUAGES, Phrase, bare_names, directions, make_phrasebook, translations


@pytest.fixture(scope="module")
def book():
    return make_phrasebook(n_train=600, n_unseen=100, seed=1)


def test_phrasebook_has_the_requested_size(book):
    assert (len(book.train), len(book.unseen)) == (600, 100)


def test_same_seed_gives_the_same_phrasebook(book):
    assert make_phrasebook(n_train=600, n_unseen=100, seed=1) == book
    assert make_phrasebook(n_train=600, n_unseen=100, seed=2) != book


def test_no_unseen_text_is_seen_in_any_language(book):
    """Unseen phrases do not occur in the training set, in any direction."""
    seen = {phrase.text(language) for phrase in book.train for language in LANGUAGES}
    assert not seen & {phrase.text(language) for phrase in book.unseen for language in LANGUAGES}


def test_dates_of_some_years_are_unseen(book):
    """A model must compose a year from digits, not memorize it."""
    seen = {phrase.year for phrase in book.train} - {None}
    unseen = {phrase.year for phrase in book.unseen} - {None}
    assert len(unseen - seen) >= 5


def test_every_name_is_in_the_training_set(book):
    """A model cannot translate the name of a country it has never seen."""
    assert set(bare_names()) <= set(book.train)
    assert not any(phrase.is_name for phrase in book.unseen)


def test_no_source_has_two_translations(book):
    """Otherwise no model could always be right."""
    answers = {}
    for pair in translations([*book.train, *book.unseen]):
        assert answers.setdefault((pair.source, pair.target_language), pair.target) == pair.target


def test_translations_go_in_every_direction():
    pairs = list(translations([Phrase("date", (2026, 3, 14, "long"))]))
    assert [(pair.source_language, pair.target_language) for pair in pairs] == directions()
    assert len(pairs) == 30


@pytest.mark.parametrize(
    ("phrase", "english", "german"),
    [
        (Phrase("date", (2026, 3, 14, "long")), "March 14, 2026", "14. März 2026"),
        (Phrase("date_full", (2026, 3, 14, "full")), "Saturday, March 14, 2026", "Samstag, 14. März 2026"),
        (Phrase("time", (15, 30)), "3:30 PM", "15:30"),
        (Phrase("distance", ("day", -3)), "3 days ago", "vor 3 Tagen"),
        (Phrase("distance", ("week", 2)), "in 2 weeks", "in 2 Wochen"),
        (Phrase("money", (123456, "EUR")), "1,234.56 euros", "1.234,56 Euro"),
        (Phrase("amount", (5, "length-kilometer")), "5 kilometers", "5 Kilometer"),
        (Phrase("countries", ("DE", "FR", "IT")), "Germany, France, and Italy", "Deutschland, Frankreich und Italien"),
        (Phrase("languages", ("de", "fr")), "German and French", "Deutsch und Französisch"),
    ],
    ids=lambda value: value.kind if isinstance(value, Phrase) else "",
)
def test_phrase_is_rendered_in_each_language(phrase, english, german):
    assert (phrase.text("en"), phrase.text("de")) == (english, german)


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_have_plain_single_spaces(book, language):
    """CLDR's narrow and unbreakable spaces are right in print; nobody types them."""
    texts = [phrase.text(language) for phrase in book.train]
    assert all(text == " ".join(text.split(" ")) and text.strip() == text for text in texts)
    assert not any(character.isspace() and character != " " for text in texts for character in text)
