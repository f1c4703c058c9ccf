"""Chunks of logits must be the logits of all rows, never held at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.model.logits import CHUNK_BYTES, iter_chunks, iter_logits


@settings(deadline=None, derandomize=True)
@given(n_rows=st.integers(0, 200), row_bytes=st.integers(1, 1 << 26))
def test_chunks_cover_every_row_once(n_rows, row_bytes):
    runs = list(iter_chunks(n_rows, row_bytes=row_bytes, chunk_bytes=1 << 24))
    assert [i for at in runs for i in range(n_rows)[at]] == list(range(n_rows))
    assert all(at.stop - at.start == 1 or (at.stop - at.start) * row_bytes <= 1 << 24 for at in runs)


def test_chunks_of_no_rows_are_one_empty_slice():
    """What is summed or concatenated over chunks needs at least one."""
    assert list(iter_chunks(0, row_bytes=4)) == [slice(0, 0)]


@pytest.mark.parametrize("copies", [(), (3,)], ids=["one", "three copies"])
def test_logits_in_chunks_equal_those_of_all_rows(copies):
    project = torch.nn.Linear(4, 10)
    hidden = torch.randn((*copies, 23, 4), generator=torch.Generator().manual_seed(0))
    chunks = list(iter_logits(project, hidden, vocab_size=CHUNK_BYTES // 60))  # 15 rows fit
    assert [at.start for at, _ in chunks] == list(range(0, 23, 5 if copies else 15))
    assert_close(torch.cat([logits for _, logits in chunks], dim=-2), project(hidden))
