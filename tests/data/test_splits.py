"""No source sentence is in both splits, whatever the order of the corpus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.datasets.splits import hold_out, split_key, validation_size
from sightline.errors import InputError

SOURCES = st.lists(st.sampled_from([f"sentence {i}" for i in range(30)]), min_size=2, max_size=200)


def keys_of(sources):
    return np.array([split_key(source) for source in sources], dtype=np.uint64)


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.integers(0, 2**63))
@settings(max_examples=200)
def test_no_source_is_in_both_splits_and_neither_is_empty(sources, seed):
    held_out = hold_out(keys_of(sources), seed=seed)
    valid = {source for source, held in zip(sources, held_out, strict=True) if held}
    train = {source for source, held in zip(sources, held_out, strict=True) if not held}
    assert valid
    assert train
    assert not valid & train


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.randoms(), st.integers(0, 100))
@settings(max_examples=100)
def test_split_does_not_depend_on_the_order(sources, random, seed):
    before = dict(zip(sources, hold_out(keys_of(sources), seed=seed), strict=True))
    random.shuffle(sources)
    assert dict(zip(sources, hold_out(keys_of(sources), seed=seed), strict=True)) == before


def test_split_key_ignores_case_spacing_and_composition():
    assert split_key("  Wie GEHT\tes? ") == split_key("wie geht es?")
    assert split_key("é") == split_key("e\u0301")
    assert split_key("a") != split_key("b")


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (2, 1), (10, 1), (100, 10), (200, 20), (2_000, 20), (10_000, 100), (10**6, 2_000)]
)
def test_validation_size(n, size):
    assert validation_size(n) == size


def test_large_corpus_gives_exactly_the_size():
    keys = np.random.default_rng(0).integers(0, 2**64, 300_000, dtype=np.uint64)
    assert hold_out(keys, seed=1).sum() == 2_000
    assert (hold_out(keys, seed=1) != hold_out(keys, seed=2)).any()


def test_one_source_that_fills_the_corpus_stays_in_training():
    keys = keys_of(["hi"] * 5_000 + [f"sentence {i}" for i in range(500)])
    for seed in range(5):
        held_out = hold_out(keys, seed=seed)
        assert not held_out[0]
        assert held_out.sum() == validation_size(len(keys))


@pytest.mark.parametrize("sources", [[], ["one"], ["one", "One ", "one"]])
def test_corpus_without_two_sources_is_refused(sources):
    with pytest.raises(
        InputError, match=r"there are fewer than two distinct sentences .*\. Give more data, or a validation file"
    ):
        hold_out(keys_of(sources), seed=0)
