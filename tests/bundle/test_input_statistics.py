"""An input that is unlike anything in training is noticed; one of the same kind is not."""

import json

import pytest

from sightline.bundle.input_statistics import (
    MAX_CHECKED_LENGTH,
    InputStatistics,
    KnownWords,
    collect_input_statistics,
    find_unfamiliar,
)
from sightline.data.tokenizers import train_bpe
from sightline.errors import SettingsError

SUBJECTS, VERBS = ["the cat", "the dog", "a bird", "an old man"], ["sees", "hears", "finds", "follows"]
OBJECTS = ["the house", "a tree", "the river", "an apple", "the street"]
ENGLISH = [f"{one} {verb} {other} ." for one in SUBJECTS for verb in VERBS for other in OBJECTS]
GERMAN = ["die Katze sieht das Haus .", "der Hund findet den Apfel .", "ein alter Mann hört den Fluss ."]


def known_of(train: list[str], valid: list[str], others: list[str] = ()) -> KnownWords:
    """What is known after training on some inputs; `others` are texts of the other side, which it never reads."""
    tokenizer = train_bpe([*train, *others] * 3, vocab_size=400)
    words = list(dict.fromkeys(word for text in [*train, *others] for word in text.split() if word.isalpha()))
    seen = {id_ for text in train for id_ in tokenizer.encode(text)}
    return KnownWords.of(tokenizer, words, collect_input_statistics(valid, tokenizer, words, seen))


@pytest.fixture(scope="module")
def known() -> KnownWords:
    return known_of(ENGLISH[::2], ENGLISH[1::2], GERMAN)


def test_validation_inputs_are_familiar(known):
    assert [text for text in ENGLISH if find_unfamiliar(text, known)] == []


def test_another_language_is_unfamiliar_and_its_words_are_named(known):
    found = find_unfamiliar("los perros comen manzanas", known)
    assert found is not None
    assert found.note == (
        "All 4 words (“los”, “perros”, “comen”, “manzanas”) never occurred in what the model was trained to read. "
        "Expect nonsense."
    )
    assert (found.unseen_words, found.n_words) == (("los", "perros", "comen", "manzanas"), 4)


def test_a_few_unseen_words_are_counted_among_all(known):
    assert find_unfamiliar("the cat eats nothing", known).note.startswith("2 of 4 words (“eats”, “nothing”) never")
    assert find_unfamiliar("Köln", known).note.startswith("The only word (“Köln”) never")


def test_the_target_language_is_unfamiliar_though_its_words_are_listed(known):
    """The word list is of both sides; the tokens tell what was read."""
    assert find_unfamiliar("die Katze findet den Fluss", known) is not None


def test_another_script_is_unfamiliar(known):
    found = find_unfamiliar("кошка видит дом", known)
    assert found is not None
    assert "the script of this one (Cyrillic)" in found.note


@pytest.mark.parametrize("text", ["", "  ", "42 ?!", "The cat sees a house", "the cat sees Anna , the dog follows"])
def test_case_digits_and_a_single_name_are_no_reason(known, text):
    assert find_unfamiliar(text, known) is None


def test_limits_come_from_the_validation_inputs():
    """Where a third of the words is usually new, a third is nothing special."""
    valid = [f"the cat sees zzz{letter}" for letter in "abcdefgh"]
    usual = known_of(ENGLISH, valid)
    assert usual.statistics.max_unseen_words == pytest.approx(1 / 4)
    assert find_unfamiliar("a bird hears qqq", usual) is None
    assert find_unfamiliar("a bird qqq qqq", usual) is not None


def test_a_text_without_end_is_looked_at_in_part(known):
    assert find_unfamiliar("the cat . " * MAX_CHECKED_LENGTH, known) is None


def test_a_model_without_a_word_list_is_judged_by_its_tokens():
    known = known_of(ENGLISH[::2], ENGLISH[1::2], GERMAN)
    bare = KnownWords.of(known.tokenizer, (), known.statistics)
    assert find_unfamiliar(ENGLISH[3], bare) is None
    assert find_unfamiliar("die Katze findet den Fluss", bare) is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seen_tokens": "!"}, "seen_tokens is not base64"),
        ({"max_unseen_words": 2.0}, "max_unseen_words must be between 0 and 1"),
        ({"scripts": ("LATIN",) * 101}, "101 scripts are more than 100"),
    ],
)
def test_damaged_statistics_are_refused(change, reason):
    with pytest.raises(SettingsError, match=reason):
        InputStatistics(**{"seen_tokens": "AA==", **change})


def test_statistics_are_small(known):
    assert len(json.dumps(vars(InputStatistics(known.statistics.seen_tokens, known.statistics.scripts)))) < 500
