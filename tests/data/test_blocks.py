"""Blocks of running text: every token once, none lost between documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.corpora.files import Counts
from sightline.data.datasets.batch_source import Blocks
from sightline.data.datasets.encoded_dataset import EncodedDataset
from sightline.errors import InputError


def dataset_of(sequences):
    ids = np.concatenate(
        [np.zeros(0, dtype=np.uint16), *(np.array(sequence, dtype=np.uint16) for sequence in sequences)]
    )
    bounds = np.cumsum([0, *(len(sequence) for sequence in sequences)]).astype(np.int64)
    n = len(sequences)
    return EncodedDataset(ids, bounds, np.zeros(n, dtype=np.uint64), np.arange(n), 1, Counts())


SEQUENCES = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8).filter(
    lambda sequences: sum(map(len, sequences)) > 1
)


@given(SEQUENCES, st.integers(1, 12))
@settings(max_examples=200)
def test_every_token_but_the_first_is_predicted_once(sequences, length):
    blocks = Blocks(dataset_of(sequences), length=length)
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
            Blocks(dataset_of(sequences), length=3, in_split=np.array(in_split)),
            Blocks(dataset_of(kept), length=3),
        )
        assert [some.block(i).tolist() for i in range(len(some))] == [all_.block(i).tolist() for i in range(len(all_))]


@pytest.mark.parametrize("sequences", [[[]], [[1]]])
def test_text_of_one_token_is_refused(sequences):
    with pytest.raises(InputError, match="the text has fewer than two tokens"):
        Blocks(dataset_of(sequences), length=4)


def test_block_without_tokens_is_refused():
    with pytest.raises(InputError, match="a block needs at least 1 token, not 0"):
        Blocks(dataset_of([[1, 2]]), length=0)
