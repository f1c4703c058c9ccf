"""What a run reads depends on seed, epoch and position alone, and every example is read once an epoch."""

import numpy as np
import pytest
import torch

from sightline.errors import SettingsError
from sightline.text import MASKING_TOKENS, train_characters
from sightline.text.batching import BatchSettings
from sightline.text.feed import PairFeed, Share
from training.examples import TASKS, WRITING, feed_of, store_of, texts


def same(first, second) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(vars(first).values(), vars(second).values(), strict=True) if a is not None
    )


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_is_the_same_whenever_it_is_asked_for(task):
    first, second = feed_of(task).epoch(3), feed_of(task).epoch(3)
    for position in (len(first) - 1, 0):
        assert same(first[position], second[position])


@pytest.mark.parametrize("task", TASKS)
def test_epochs_differ(task):
    feed = feed_of(task)
    batches = [feed.epoch(k)[0] for k in (0, 1)]
    assert len(vars(batches[0])["inputs"]) != len(vars(batches[1])["inputs"]) or not same(*batches)


def test_every_pair_is_read_once_an_epoch_behind_its_start():
    read = [row.tolist() for batch in feed_of("pairs").epoch(0) for row in batch.source]
    assert sorted(WRITING.decode(row) for row in read) == sorted(texts(40))
    batch = feed_of("pairs").epoch(0)[0]
    assert (batch.inputs[:, 0] == WRITING.start_id).all()
    lasts = batch.targets[torch.arange(len(batch)), batch.lengths - 1]
    assert (lasts == WRITING.end_id).all()


def test_sizes_are_those_of_the_batches():
    for task in TASKS:
        epoch = feed_of(task).epoch(0)
        assert epoch.sizes.tolist() == [batch.n_ids for batch in epoch], task


def test_a_tokenizer_without_the_tokens_a_task_needs_is_refused():
    masking = train_characters(["ab"], vocab_size=300, special_tokens=MASKING_TOKENS)
    store = store_of([([1], [2])])
    with pytest.raises(SettingsError, match="this tokenizer has no start token"):
        PairFeed(store, np.arange(1), Share(BatchSettings(), 1), source=masking, target=masking)
