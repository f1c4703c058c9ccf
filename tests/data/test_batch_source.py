"""Batches depend only on seed, epoch and position, and every example is read once per epoch."""

import numpy as np
import pytest
import torch

from sightline.data.datasets.batch_source import PairBatchSource, RankSlice
from sightline.data.datasets.batching import BatchSettings
from sightline.data.tokenizers import MASKING_TOKENS, train_characters
from sightline.errors import SettingsError
from training.examples import GENERATIVE, TASKS, batch_source_of, dataset_of, texts


def same(first, second) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(vars(first).values(), vars(second).values(), strict=True) if a is not None
    )


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_is_the_same_whenever_it_is_built(task):
    first, second = batch_source_of(task).epoch(3), batch_source_of(task).epoch(3)
    for position in (len(first) - 1, 0):
        assert same(first[position], second[position])


@pytest.mark.parametrize("task", TASKS)
def test_epochs_differ(task):
    batch_source = batch_source_of(task)
    batches = [batch_source.epoch(k)[0] for k in (0, 1)]
    assert len(vars(batches[0])["inputs"]) != len(vars(batches[1])["inputs"]) or not same(*batches)


def test_every_pair_is_read_once_per_epoch_after_the_start_token():
    read = [row.tolist() for batch in batch_source_of("pairs").epoch(0) for row in batch.source]
    assert sorted(GENERATIVE.decode(row) for row in read) == sorted(texts(40))
    batch = batch_source_of("pairs").epoch(0)[0]
    assert (batch.inputs[:, 0] == GENERATIVE.start_id).all()
    lasts = batch.targets[torch.arange(len(batch)), batch.lengths - 1]
    assert (lasts == GENERATIVE.end_id).all()


def test_sizes_are_those_of_the_batches():
    for task in TASKS:
        epoch = batch_source_of(task).epoch(0)
        assert epoch.sizes.tolist() == [batch.n_ids for batch in epoch], task


def test_a_tokenizer_without_the_tokens_a_task_needs_is_refused():
    masking = train_characters(["ab"], vocab_size=300, special_tokens=MASKING_TOKENS)
    dataset = dataset_of([([1], [2])])
    with pytest.raises(SettingsError, match="this tokenizer has no start token"):
        PairBatchSource(dataset, np.arange(1), RankSlice(BatchSettings(), 1), source=masking, target=masking)
