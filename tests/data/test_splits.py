"""No source sentence is in both splits, whatever the order of the corpus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.datasets.splits import hold_out, hold_out_by_class, hold_out_fold, split_key, validation_size
from sightline.errors import InputError

SOURCES = st.lists(st.sampled_from([f"sentence {i}" for i in range(30)]), min_size=2, max_size=200)


def keys_of(sources):
    return np.array([split_key(source) for source in sources], dtype=np.uint64)


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.integers(0, 2**63))
@settings(max_examples=200)
def test_no_source_is_in_both_splits_and_neither_is_empty(sources, seed):
    held_out = hold_out(keys_of(sources), seed=seed, size=validation_size(len(sources)))
    valid = {source for source, held in zip(sources, held_out, strict=True) if held}
    train = {source for source, held in zip(sources, held_out, strict=True) if not held}
    assert valid
    assert train
    assert not valid & train


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.randoms(), st.integers(0, 100))
@settings(max_examples=100)
def test_split_does_not_depend_on_the_order(sources, random, seed):
    size = validation_size(len(sources))
    before = dict(zip(sources, hold_out(keys_of(sources), seed=seed, size=size), strict=True))
    random.shuffle(sources)
    assert dict(zip(sources, hold_out(keys_of(sources), seed=seed, size=size), strict=True)) == before


def test_split_key_ignores_case_spacing_and_composition():
    assert split_key("  Wie GEHT\tes? ") == split_key("wie geht es?")
    assert split_key("é") == split_key("e\u0301")
    assert split_key("a") != split_key("b")


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (2, 1), (10, 2), (100, 20), (1_000, 200), (1_500, 200), (5_000, 500), (10**6, 2_000)]
)
def test_validation_set_is_a_tenth_within_its_limits(n, size):
    assert validation_size(n) == size


@pytest.mark.parametrize(("n", "size"), [(10, 2), (100, 20), (150, 20), (1_000, 100), (10_000, 200)])
def test_chunks_of_running_text_count_as_ten_examples(n, size):
    assert validation_size(n, chunks=True) == size


@pytest.mark.parametrize(("n", "size"), [(1, 1), (10, 1), (100, 10), (2_000, 20), (10_000, 100), (10**6, 2_000)])
def test_resumed_runs_of_earlier_versions_hold_out_what_they_did(n, size):
    assert validation_size(n, share=None) == size


def test_another_share_stays_within_the_limits():
    assert validation_size(10_000, share=0.15) == 1_500
    assert validation_size(10_000, share=0.001) == 200
    assert validation_size(500, share=0.01) == 100


@given(st.lists(st.integers(0, 3), min_size=10, max_size=300), st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_every_class_has_its_share_of_the_validation_set(classes, seed):
    keys = keys_of([f"sentence {n}" for n in range(len(classes))])
    size = validation_size(len(classes))
    classes = np.array(classes)
    held_out = hold_out_by_class(keys, classes, seed=seed, size=size)
    assert 0 < held_out.sum() <= size
    for name, count in zip(*np.unique(classes, return_counts=True), strict=True):
        assert abs(int(held_out[classes == name].sum()) - size * count / len(classes)) <= 1


def test_texts_of_two_classes_stay_together():
    keys = keys_of(["same"] * 6 + [f"sentence {n}" for n in range(44)])
    classes = np.array([0, 1] * 25)
    for seed in range(20):
        assert len(set(hold_out_by_class(keys, classes, seed=seed, size=10)[:6].tolist())) == 1


@given(st.integers(2, 7), st.integers(30, 90), st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_every_example_is_in_one_fold(folds, n, seed):
    keys = keys_of([f"sentence {number // 2}" for number in range(n)])
    classes = np.array([number % 3 for number in range(n)])
    parts = [hold_out_fold(keys, classes, seed=seed, fold=fold, folds=folds) for fold in range(1, folds + 1)]
    assert (np.sum(parts, axis=0) == 1).all()
    assert max(part.sum() for part in parts) <= n / folds + 2 * 3


def test_as_many_folds_as_examples_are_possible_whatever_the_classes():
    keys, classes = keys_of(list("abcde")), np.array([0, 0, 0, 1, 1])
    parts = [hold_out_fold(keys, classes, seed=1, fold=fold, folds=5) for fold in range(1, 6)]
    assert [part.sum() for part in parts] == [1] * 5


def test_more_folds_than_examples_are_refused():
    with pytest.raises(InputError, match=r"3 folds need 3 distinct examples or more: set data\.folds lower"):
        hold_out_fold(keys_of(["a", "a"]), None, seed=0, fold=1, folds=3)


def test_large_corpus_gives_exactly_the_size():
    keys = np.random.default_rng(0).integers(0, 2**64, 300_000, dtype=np.uint64)
    assert hold_out(keys, seed=1, size=2_000).sum() == 2_000
    assert (hold_out(keys, seed=1, size=2_000) != hold_out(keys, seed=2, size=2_000)).any()


def test_one_source_that_fills_the_corpus_stays_in_training():
    keys = keys_of(["hi"] * 5_000 + [f"sentence {i}" for i in range(500)])
    for seed in range(5):
        held_out = hold_out(keys, seed=seed, size=300)
        assert not held_out[0]
        assert held_out.sum() == 300


@pytest.mark.parametrize("sources", [[], ["one"], ["one", "One ", "one"]])
def test_corpus_without_two_sources_is_refused(sources):
    with pytest.raises(
        InputError, match=r"there are fewer than two distinct sentences .*\. Give more data, or a validation file"
    ):
        hold_out(keys_of(sources), seed=0, size=1)
