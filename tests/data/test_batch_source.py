"""Batches depend only on seed, epoch and position, and an epoch covers every example, token and sentence once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.datasets.batch_source import Blocks, PairBatchSource, RankSlice, pair_sentences
from sightline.data.datasets.batching import BatchSettings
from sightline.data.tokenizers import MASKING_TOKENS, train_characters
from sightline.errors import InputError, SettingsError
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


def stream_of(sequences):
    return dataset_of([[sequence] for sequence in sequences])


SEQUENCES = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8).filter(
    lambda sequences: sum(map(len, sequences)) > 1
)


@given(SEQUENCES, st.integers(1, 12))
@settings(max_examples=200)
def test_every_token_but_the_first_is_predicted_once(sequences, length):
    blocks = Blocks(stream_of(sequences), length=length)
    stream = [id_ for sequence in sequences for id_ in sequence]
    found = [blocks.block(number).tolist() for number in range(len(blocks))]
    assert [id_ for block in found for id_ in block[1:]] == stream[1:]
    assert [id_ for block in found for id_ in block[:-1]] == stream[:-1]
    assert [len(block) - 1 for block in found] == blocks.lengths.tolist()
    assert set(blocks.lengths[:-1].tolist()) <= {length}
    assert 1 <= blocks.lengths[-1] <= length


@given(SEQUENCES, st.data())
@settings(max_examples=50)
def test_stream_is_made_of_the_split(sequences, data):
    in_split = data.draw(st.lists(st.booleans(), min_size=len(sequences), max_size=len(sequences)))
    kept = [sequence for sequence, keep in zip(sequences, in_split, strict=True) if keep]
    if sum(map(len, kept)) > 1:
        some, all_ = (
            Blocks(stream_of(sequences), length=3, in_split=np.array(in_split)),
            Blocks(stream_of(kept), length=3),
        )
        assert [some.block(i).tolist() for i in range(len(some))] == [all_.block(i).tolist() for i in range(len(all_))]


@pytest.mark.parametrize("sequences", [[[]], [[1]]])
def test_text_of_one_token_is_refused(sequences):
    with pytest.raises(InputError, match="the text has fewer than two tokens"):
        Blocks(stream_of(sequences), length=4)


def test_block_without_tokens_is_refused():
    with pytest.raises(InputError, match="a block needs at least 1 token, not 0"):
        Blocks(stream_of([[1, 2]]), length=0)


DOCUMENT_SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=8).filter(
    lambda sizes: max(sizes) > 1 and (len(sizes) > 1 or sizes[0] > 2)
)


def documents_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


@given(DOCUMENT_SIZES, st.integers(0, 2**63), st.integers(0, 100))
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


@given(DOCUMENT_SIZES)
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
