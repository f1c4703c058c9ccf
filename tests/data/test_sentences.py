"""Half of the pairs are consecutive, half are not, and a resume draws the same ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.datasets.batch_source import pair_sentences
from sightline.errors import InputError

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8).filter(
    lambda sizes: max(sizes) > 1 and (len(sizes) > 1 or sizes[0] > 2)
)


def documents_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


@given(SIZES, st.integers(0, 2**63), st.integers(0, 100))
@settings(max_examples=200)
def test_half_follow_and_the_others_come_from_elsewhere(sizes, seed, epoch):
    documents = documents_of(sizes)
    pairs = pair_sentences(documents, seed=seed, epoch=epoch)
    follows = (pairs.second == pairs.first + 1) & (documents[pairs.first] == documents[pairs.second % len(documents)])
    assert (follows == ~pairs.not_next).all()
    assert pairs.not_next.sum() == len(pairs.first) // 2
    if len(sizes) > 1:
        negatives = pairs.second[pairs.not_next]
        assert (documents[negatives] != documents[pairs.first[pairs.not_next]]).all()
    assert (pairs.second >= 0).all()
    assert (pairs.second < len(documents)).all()


@given(SIZES)
def test_every_sentence_with_a_successor_comes_first_once(sizes):
    documents = documents_of(sizes)
    assert len(pair_sentences(documents, seed=0, epoch=0).first) == sum(size - 1 for size in sizes)


def test_pairs_depend_on_seed_and_epoch_and_on_nothing_else():
    documents = documents_of([20, 20, 20])

    def drawn(seed, epoch):
        return tuple(pair_sentences(documents, seed=seed, epoch=epoch).second)

    assert drawn(1, 2) == drawn(1, 2)
    assert len({drawn(seed, epoch) for seed in range(3) for epoch in range(3)}) == 9


@pytest.mark.parametrize("sizes", [[], [1], [1, 1, 1], [2]])
def test_text_without_neighbors_is_refused(sizes):
    with pytest.raises(InputError, match="needs a document with two consecutive sentences"):
        pair_sentences(documents_of(sizes), seed=0, epoch=0)
