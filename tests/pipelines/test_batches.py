"""Batches within a budget, every text once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import SettingsError
from sightline.pipelines.batches import MIN_WIDTH, batch_by_tokens


@given(
    lengths=st.lists(st.integers(0, 60), max_size=40), batch_tokens=st.integers(1, 300), rows=st.sampled_from([1, 4])
)
def test_every_text_with_tokens_is_in_one_batch_within_the_budget(lengths, batch_tokens, rows):
    found = list(batch_by_tokens(lengths, batch_tokens=batch_tokens, rows=rows))
    wanted = [number for number, length in enumerate(lengths) if length]
    assert sorted(number for batch in found for number in batch) == wanted
    for batch in found:
        width = max(MIN_WIDTH, *(lengths[number] for number in batch))
        assert len(batch) == 1 or len(batch) * width * rows <= batch_tokens


def test_budget_of_zero_is_refused():
    with pytest.raises(SettingsError, match="batch_tokens must be 1 or more, not 0"):
        list(batch_by_tokens([3], batch_tokens=0))
