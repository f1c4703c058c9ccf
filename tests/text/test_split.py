"""No source sentence on both sides, whatever the order of the corpus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.text.split import key_of, set_aside, validation_size

SOURCES = st.lists(st.sampled_from([f"sentence {i}" for i in range(30)]), min_size=2, max_size=200)


def keys_of(sources):
    return np.array([key_of(source) for source in sources], dtype=np.uint64)


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.integers(0, 2**63))
@settings(max_examples=200)
def test_no_source_is_on_both_sides_and_neither_is_empty(sources, seed):
    side = set_aside(keys_of(sources), seed=seed)
    valid = {source for source, aside in zip(sources, side, strict=True) if aside}
    train = {source for source, aside in zip(sources, side, strict=True) if not aside}
    assert valid
    assert train
    assert not valid & train


@given(SOURCES.filter(lambda sources: len(set(sources)) > 1), st.randoms(), st.integers(0, 100))
@settings(max_examples=100)
def test_side_does_not_depend_on_the_order(sources, random, seed):
    aside = dict(zip(sources, set_aside(keys_of(sources), seed=seed), strict=True))
    random.shuffle(sources)
    assert dict(zip(sources, set_aside(keys_of(sources), seed=seed), strict=True)) == aside


def test_case_spacing_and_composition_make_no_other_source():
    assert key_of("  Wie GEHT\tes? ") == key_of("wie geht es?")
    assert key_of("é") == key_of("e\u0301")
    assert key_of("a") != key_of("b")


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (2, 1), (10, 1), (100, 10), (200, 20), (2_000, 20), (10_000, 100), (10**6, 2_000)]
)
def test_size_is_sensible(n, size):
    assert validation_size(n) == size


def test_large_corpus_gives_just_the_size():
    keys = np.random.default_rng(0).integers(0, 2**64, 300_000, dtype=np.uint64)
    assert set_aside(keys, seed=1).sum() == 2_000
    assert (set_aside(keys, seed=1) != set_aside(keys, seed=2)).any()


def test_one_source_that_fills_the_corpus_stays_in_training():
    keys = keys_of(["hi"] * 5_000 + [f"sentence {i}" for i in range(500)])
    for seed in range(5):
        side = set_aside(keys, seed=seed)
        assert not side[0]
        assert side.sum() == validation_size(len(keys))


@pytest.mark.parametrize("sources", [[], ["one"], ["one", "One ", "one"]])
def test_corpus_without_two_sources_is_refused(sources):
    with pytest.raises(InputError, match=r"there are not two different sentences .*\. Give more data, or a file"):
        set_aside(keys_of(sources), seed=0)
