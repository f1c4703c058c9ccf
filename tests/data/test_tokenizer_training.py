"""Training a tokenizer is deterministic and refuses what it cannot do, and words are counted, most frequent first."""

import os
import subprocess
import sys
from functools import partial
from typing import get_args

import pytest

from sightline.data.tokenizers import train_bpe, train_characters, train_tokenizer, training
from sightline.data.tokenizers.training import ALGORITHMS, Kind, WordCounter
from sightline.errors import InputError, SettingsError

CORPUS = [f"sentence {i % 7} says {'na' * (i % 5)} to number {i}" for i in range(200)]
TRAIN_AND_PRINT = """
from sightline.data.tokenizers import train_tokenizer
import hashlib
texts = [f"sentence {i % 7} says {'na' * (i % 5)} to number {i}" for i in range(200)]
for kind, vocab_size in {"bpe": 400, "wordpiece": 600, "words": 300}.items():
    print(hashlib.sha256(train_tokenizer(kind, texts, vocab_size=vocab_size).to_json().encode()).hexdigest())
"""
EVERY = pytest.mark.parametrize("train", [partial(train_tokenizer, kind) for kind in ALGORITHMS], ids=ALGORITHMS)


def test_training_gives_the_same_tokenizer_in_every_process_and_thread_count():
    hashes = {
        subprocess.run(
            [sys.executable, "-c", TRAIN_AND_PRINT],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "3")
    }
    assert len(hashes) == 1


def test_small_corpus_gives_a_small_vocabulary():
    assert 259 <= train_bpe(["ab ab"], vocab_size=8_000).vocab_size < 270


def test_vocabulary_has_the_requested_size_if_the_corpus_allows():
    assert train_bpe(CORPUS, vocab_size=300).vocab_size == 300


def test_rare_characters_become_bytes_when_the_vocabulary_is_full():
    tokenizer = train_characters(["aaabbc"], vocab_size=261)
    assert [len(tokenizer.encode(character)) for character in "abcé"] == [1, 1, 1, 2]
    assert tokenizer.vocab_size == 261
    assert [tokenizer.encode("a"), tokenizer.encode("b")] == [[259], [260]]


@EVERY
@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_empty_corpus_is_refused(train, texts):
    with pytest.raises(InputError, match="the corpus is empty"):
        train(texts)


@EVERY
def test_surrogate_in_the_corpus_is_refused(train):
    with pytest.raises(InputError, match="surrogate"):
        train(["fine", "\udc80"])


@EVERY
def test_vocabulary_without_room_for_bytes_is_refused(train):
    with pytest.raises(SettingsError, match=r"vocab_size must be at least (259|515) "):
        train(CORPUS, vocab_size=258)


@EVERY
@pytest.mark.parametrize("tokens", [("<s>", "<s>"), ("",), ("a",)])
def test_duplicate_or_short_special_tokens_are_refused(train, tokens):
    with pytest.raises(SettingsError, match="special tokens must be distinct names"):
        train(CORPUS, special_tokens=tokens)


def test_training_on_one_endless_word_ends():
    assert train_bpe(["a" * 1_000_000], vocab_size=300).vocab_size <= 300


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "words"])
def test_special_token_that_could_be_a_word_is_refused(kind):
    with pytest.raises(SettingsError, match="'STOP' could be a word in the text: put it in brackets, as <STOP>"):
        train_tokenizer(kind, CORPUS, vocab_size=600, special_tokens=("<pad>", "STOP"))


def test_tokenizer_is_chosen_by_name():
    assert train_tokenizer("bpe", CORPUS, vocab_size=300).to_json() == train_bpe(CORPUS, vocab_size=300).to_json()
    assert train_tokenizer("characters", CORPUS, vocab_size=300).vocab_size <= 300
    assert set(ALGORITHMS) == set(get_args(Kind))


def test_vocabulary_is_never_larger_than_requested():
    for kind, vocab_size in {"wordpiece": 520, "unigram": 270, "words": 262}.items():
        assert train_tokenizer(kind, CORPUS, vocab_size=vocab_size).vocab_size <= vocab_size


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
    monkeypatch.setattr(training, "MAX_COUNTED_WORDS", 10)
    letters = "abcdefghijklmnopqrstuvwxyz"
    counter = WordCounter()
    for letter in letters:
        list(counter.count([f"often often x{letter}"]))
        assert len(counter._counts) <= 11
    assert counter.words()[0] == "often"
