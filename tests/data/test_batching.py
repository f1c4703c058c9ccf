"""T7: the order of the data is a pure function of (seed, epoch, position)."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.datasets.batching import Batches, BatchSettings
from sightline.errors import InputError, SettingsError

MAX_LENGTH = 30
ORDER = [[4, 5], [8, 9], [6, 7], [0, 1, 2, 3]]


@st.composite
def cases(draw):
    """Lengths of one or two columns, and settings under which all of them fit."""
    columns = draw(st.sampled_from([1, 2]))
    rows = draw(st.lists(st.tuples(*[st.integers(0, MAX_LENGTH)] * columns), max_size=80))
    lengths = np.array(rows, dtype=np.int64).reshape(-1, columns)
    batch_settings = BatchSettings(
        batch_tokens=draw(st.integers(2 * MAX_LENGTH, 400)),
        batch_sentences=draw(st.sampled_from([1, 7, 4_096])),
        bucket_window=draw(st.sampled_from([1, 5, 16, 65_536])),
    )
    return lengths, batch_settings, draw(st.integers(0, 2**63)), draw(st.integers(0, 1_000))


def padded_size(lengths, batch):
    return len(batch) * lengths[batch].max(axis=0).sum()


@given(cases(), st.integers(1, 4))
@settings(max_examples=200)
def test_ranks_together_see_every_example_once(case, world_size):
    lengths, batch_settings, seed, epoch = case
    ranks = [
        Batches(lengths, batch_settings, seed=seed, rank=rank, world_size=world_size).epoch(epoch)
        for rank in range(world_size)
    ]
    seen = np.concatenate([np.zeros(0, dtype=np.int64), *(batch for rank in ranks for batch in rank)])
    assert sorted(seen) == list(range(len(lengths)))
    assert len({len(rank) for rank in ranks}) == 1


@given(cases(), st.integers(2, 4))
@settings(max_examples=100)
def test_slices_of_the_ranks_make_the_batch_of_one(case, world_size):
    lengths, batch_settings, seed, epoch = case
    ranks = [
        Batches(lengths, batch_settings, seed=seed, rank=rank, world_size=world_size).epoch(epoch)
        for rank in range(world_size)
    ]
    for whole, *slices in zip(Batches(lengths, batch_settings, seed=seed).epoch(epoch), *ranks, strict=True):
        assert sorted(whole) == sorted(np.concatenate(slices))


@given(cases(), st.integers(0, 100))
@settings(max_examples=200)
def test_resumed_epoch_is_the_rest_of_the_whole_one(case, position):
    lengths, batch_settings, seed, epoch = case
    whole = list(Batches(lengths, batch_settings, seed=seed).epoch(epoch))
    resumed = list(Batches(lengths, batch_settings, seed=seed).epoch(epoch)[position:])
    assert [batch.tolist() for batch in resumed] == [batch.tolist() for batch in whole[position:]]


@given(cases())
@settings(max_examples=200)
def test_no_batch_is_larger_than_its_budget(case):
    lengths, batch_settings, seed, epoch = case
    for batch in Batches(lengths, batch_settings, seed=seed).epoch(epoch):
        assert 1 <= len(batch) <= batch_settings.batch_sentences
        assert padded_size(lengths, batch) <= batch_settings.batch_tokens


@given(cases())
@settings(max_examples=100)
def test_padding_share_is_that_of_the_batches(case):
    lengths, batch_settings, seed, epoch = case
    batches = Batches(lengths, batch_settings, seed=seed).epoch(epoch)
    size = sum(padded_size(lengths, batch) for batch in batches)
    assert batches.padding_share == pytest.approx(1 - lengths.sum() / size if size else batches.padding_share)


def test_every_epoch_and_seed_has_its_own_order():
    lengths = np.arange(200) % 9 + 1
    batch_settings = BatchSettings(batch_tokens=50)
    orders = {
        tuple(np.concatenate(list(Batches(lengths, batch_settings, seed=seed).epoch(epoch))))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_order_never_changes():
    """Written down, so that a checkpoint of today is resumed in the same order by every later version."""
    batches = Batches(np.arange(1, 11), BatchSettings(batch_tokens=20), seed=7).epoch(2)
    assert [batch.tolist() for batch in batches] == ORDER


def test_sorting_saves_nearly_all_padding():
    generator = np.random.default_rng(0)
    source = generator.poisson(20, 20_000) + 1
    lengths = np.stack([source, generator.poisson(source) + 1], axis=1)
    sorted_ = Batches(lengths, BatchSettings(), seed=0).epoch(0)
    unsorted = Batches(lengths, BatchSettings(bucket_window=1), seed=0).epoch(0)
    assert sorted_.padding_share < 0.1 < unsorted.padding_share
    assert len(sorted_) < len(unsorted)


@pytest.mark.slow
def test_epoch_of_a_million_sentences_is_built_quickly():
    lengths = np.random.default_rng(0).integers(1, 100, (1_000_000, 2))
    began = time.process_time()
    assert len(Batches(lengths, BatchSettings(), seed=0).epoch(0)) > 1_000
    assert time.process_time() - began < 3


def test_example_larger_than_a_batch_is_refused():
    with pytest.raises(InputError, match=r"an example has 5,000 tokens, a batch only 4,096: raise batch_tokens"):
        Batches(np.array([3, 5_000]), BatchSettings(), seed=0)


def test_impossible_rank_is_refused():
    with pytest.raises(InputError, match="rank must be between 0 and 1, not 2"):
        Batches(np.ones(3, dtype=np.int64), BatchSettings(), seed=0, rank=2, world_size=2)


def test_impossible_sizes_are_refused():
    with pytest.raises(SettingsError, match="batch_tokens must be between"):
        BatchSettings(batch_tokens=0)
