"""Telling the languages of a model's texts apart by its own tokens."""

import numpy as np
import pytest

from sightline.bundle.language_statistics import LEVELS_PER_BIT, LanguageStatistics, collect_language_statistics

COUNTS = {"de": np.array([90, 10, 0, 50]), "en": np.array([10, 90, 0, 50])}


def test_the_language_in_which_the_tokens_are_frequent_comes_first():
    statistics = collect_language_statistics(COUNTS)
    assert list(statistics.detect([0, 0, 1])) == ["de", "en"]
    assert list(statistics.detect([1, 1, 0])) == ["en", "de"]


def test_probabilities_are_those_of_naive_bayes():
    found = collect_language_statistics(COUNTS).detect([0])
    exact = 90.5 / (90.5 + 10.5)
    assert found["de"] == pytest.approx(exact, abs=2 / LEVELS_PER_BIT / 8)
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("ids", [[], [3], [2], [99], [3] * 10_000])
def test_a_text_that_says_nothing_leaves_all_languages_equal(ids):
    found = collect_language_statistics(COUNTS).detect(ids)
    assert list(found.values()) == pytest.approx([0.5, 0.5])


def test_tokens_that_occur_in_no_language_decide_nothing():
    """They would sum up to a verdict where the languages have been counted on different amounts of text."""
    counts = {"de": np.array([90, 0]), "en": np.array([10, 0])}
    found = collect_language_statistics(counts).detect([1] * 100)
    assert list(found.values()) == pytest.approx([0.5, 0.5])


def test_a_long_text_is_decided_without_overflow():
    found = collect_language_statistics(COUNTS).detect([0] * 100_000)
    assert (found["de"], found["en"]) == (1.0, 0.0)


def test_a_table_takes_one_byte_per_token():
    statistics = collect_language_statistics(COUNTS)
    assert {len(table) for table in statistics.tokens.values()} == {8}  # 4 bytes in base64
    assert LanguageStatistics(statistics.tokens).log_probs.shape == (2, 4)
