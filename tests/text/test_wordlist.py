"""The words of a text, the most frequent first."""

from sightline.text import wordlist
from sightline.text.wordlist import WordCounter


def counted(texts):
    counter = WordCounter()
    assert list(counter.listening(texts)) == texts
    return counter.words()


def test_words_are_ranked_by_frequency_then_by_the_alphabet():
    assert counted(["b a c a", "b a d"]) == ("a", "b", "c", "d")


def test_words_are_whole_and_without_numbers_or_signs():
    assert set(counted(["Don't stop, well-known Käthe_1 – 42 straße!"])) == {
        "Don't", "stop", "well-known", "Käthe", "straße",
    }  # fmt: skip


def test_endless_words_are_no_words():
    assert counted(["a" * 51, "b" * 50]) == ("b" * 50,)


def test_memory_stays_bounded_and_frequent_words_stay(monkeypatch):
    monkeypatch.setattr(wordlist, "MOST_COUNTED", 10)
    letters = "abcdefghijklmnopqrstuvwxyz"
    counter = WordCounter()
    for letter in letters:
        list(counter.listening([f"often often x{letter}"]))
        assert len(counter._counts) <= 11
    assert counter.words()[0] == "often"
