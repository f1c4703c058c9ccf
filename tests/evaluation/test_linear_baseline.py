"""The linear baseline learns what words tell, and nothing else."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.evaluation import linear_baseline as module
from sightline.evaluation.linear_baseline import extract_features, train_linear_baseline

GOOD, BAD, FILLERS = ("fine", "lovely", "superb"), ("dull", "awful", "boring"), ("the", "film", "was", "a", "very")


def reviews(n: int) -> tuple[list[list[str]], list[int]]:
    texts, labels = [], []
    for number in range(n):
        label = number % 2
        word = (GOOD if label else BAD)[number % 3]
        texts.append([f"{FILLERS[number % 5]} {FILLERS[number * 3 % 5]} {word} {FILLERS[number * 7 % 5]}"])
        labels.append(label)
    return texts, labels


def test_words_that_tell_the_class_are_learned():
    texts, labels = reviews(60)
    baseline = train_linear_baseline(texts, labels, n_classes=2)
    assert baseline.predict([["a superb film"], ["was dull"], ["LOVELY"], ["boring, very boring"]]) == [1, 0, 1, 0]


def test_negation_is_a_pair_of_words():
    texts = [["not good"], ["good"], ["not bad"], ["bad"]] * 10
    baseline = train_linear_baseline(texts, [0, 1, 1, 0] * 10, n_classes=2)
    assert baseline.predict([["not good"], ["not bad"]]) == [0, 1]


def test_words_in_both_texts_of_a_pair_are_seen():
    words = [f"word{number}" for number in range(40)]
    same = [[f"{a} {b}", f"{b} {a}"] for a, b in pairwise(words)]
    different = [[f"{a} {b}", f"{c} {d}"] for a, b, c, d in zip(*(words[k:] for k in (0, 1, 2, 3)), strict=False)]
    texts, labels = [*same, *different], [1] * len(same) + [0] * len(different)
    assert "both word3" in extract_features(["word3 word4", "word4 word3"])
    baseline = train_linear_baseline(texts, labels, n_classes=2)
    # Of these words it knows only that some are in both texts.
    unseen = [["word1 new", "new word1"], ["word2 other", "other word2"]]
    apart = [["word1 new", "other word3"], ["word2 other", "new word9"]]
    assert baseline.predict([*unseen, *apart]) == [1, 1, 0, 0]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_text_gets_a_class(texts):
    baseline = train_linear_baseline([["yes"], ["no"], ["maybe"]] * 3, [0, 1, 2] * 3, n_classes=3)
    assert set(baseline.predict([[text] for text in texts])) <= {0, 1, 2}


def test_characters_of_scripts_without_spaces_are_words():
    assert {"好", "好 吃", "吃"} <= set(extract_features(["好吃"]))


def test_training_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_TUNING_EXAMPLES", 20)
    monkeypatch.setattr(module, "MAX_WEIGHTS", 8)
    baseline = train_linear_baseline(*reviews(60), n_classes=2)
    assert len(baseline.vocabulary) == 4


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_handful_of_examples_is_enough_to_train(n):
    texts, labels = reviews(n)
    assert len(train_linear_baseline(texts, labels, n_classes=2).predict(texts)) == n
