"""Blocks of running text: every token once, none lost between documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.text.blocks import Blocks
from sightline.text.counts import Counts
from sightline.text.store import Store


def store_of(pieces):
    ids = np.concatenate([np.zeros(0, dtype=np.uint16), *(np.array(piece, dtype=np.uint16) for piece in pieces)])
    bounds = np.cumsum([0, *(len(piece) for piece in pieces)]).astype(np.int64)
    n = len(pieces)
    return Store(ids, bounds, np.zeros(n, dtype=np.uint64), np.arange(n), 1, Counts())


PIECES = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=8).filter(
    lambda pieces: sum(map(len, pieces)) > 1
)


@given(PIECES, st.integers(1, 12))
@settings(max_examples=200)
def test_every_token_but_the_first_is_foreseen_once(pieces, length):
    blocks = Blocks(store_of(pieces), length=length)
    stream = [id_ for piece in pieces for id_ in piece]
    found = [blocks.block(number).tolist() for number in range(len(blocks))]
    assert [id_ for block in found for id_ in block[1:]] == stream[1:]
    assert [id_ for block in found for id_ in block[:-1]] == stream[:-1]
    assert [len(block) - 1 for block in found] == blocks.lengths.tolist()
    assert set(blocks.lengths[:-1].tolist()) <= {length}
    assert 1 <= blocks.lengths[-1] <= length


@given(PIECES, st.data())
@settings(max_examples=50)
def test_chosen_pieces_make_the_stream(pieces, data):
    chosen = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    kept = [piece for piece, keep in zip(pieces, chosen, strict=True) if keep]
    if sum(map(len, kept)) > 1:
        some, all_ = Blocks(store_of(pieces), length=3, chosen=np.array(chosen)), Blocks(store_of(kept), length=3)
        assert [some.block(i).tolist() for i in range(len(some))] == [all_.block(i).tolist() for i in range(len(all_))]


@pytest.mark.parametrize("pieces", [[[]], [[1]]])
def test_text_of_one_token_is_refused(pieces):
    with pytest.raises(InputError, match="there are not two tokens of text"):
        Blocks(store_of(pieces), length=4)


def test_block_without_tokens_is_refused():
    with pytest.raises(InputError, match="a block needs at least 1 token, not 0"):
        Blocks(store_of([[1, 2]]), length=0)
