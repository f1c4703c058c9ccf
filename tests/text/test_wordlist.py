"""The words of a text, the most frequent first."""

from sightline.text import wordlist
from sightline.text.wordlist import WordCounter


def count_words(texts):
    counter = WordCounter()
    assert list(counter.count(texts)) == texts
    return counter.words()


def test_words_are_ranked_by_frequency_then_by_the_alphabet():
    assert count_words(["b a c a", "b a d"]) == ("a", "b", "c", "d")


def test_words_are_whole_and_without_numbers_or_signs():
    assert set(count_words(["Don't stop, well-known Käthe_1 – 42 straße!"])) == {
        "Don't", "stop", "well-known", "Käthe", "straße",
    }  # fmt: skip


def test_overlong_words_are_ignored():
    assert count_words(["a" * 51, "b" * 50]) == ("b" * 50,)


def test_memory_stays_bounded_and_frequent_words_stay(monkeypatch):
    monkeypatch.setattr(wordlist, "MAX_COUNTED", 10)
    letters = "abcdefghijklmnopqrstuvwxyz"
    counter = WordCounter()
    for letter in letters:
        list(counter.count([f"often often x{letter}"]))
        assert len(counter._counts) <= 11
    assert counter.words()[0] == "often"
