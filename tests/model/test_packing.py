"""The grid of a padded batch, and the list of its real tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.model.packing import Layout

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=5)
WIDTH = 5


def layout_of(lengths, *, packed=True):
    return Layout.of(torch.zeros(len(lengths), WIDTH, dtype=torch.long), torch.tensor(lengths), packed=packed)


@given(LENGTHS)
def test_pack_keeps_the_real_tokens_in_order(lengths):
    """Row by row, the padding left out."""
    grid = torch.arange(len(lengths) * WIDTH).view(-1, WIDTH)
    packed = layout_of(lengths).pack(grid).flatten()
    assert packed.tolist() == [
        WIDTH * row + position for row, length in enumerate(lengths) for position in range(length)
    ]


@given(LENGTHS)
def test_pad_after_pack_gives_the_real_tokens_back(lengths):
    """Going there and back again loses nothing; what stands in for padding is finite, so a mask can hide it."""
    grid = torch.randn(len(lengths), WIDTH, 3)
    layout = layout_of(lengths)
    back = layout.pad(layout.pack(grid))
    real = torch.arange(WIDTH) < torch.tensor(lengths)[:, None]
    assert torch.equal(back[real], grid[real])
    assert back.isfinite().all()


@given(LENGTHS)
def test_pack_passes_gradients_to_the_real_tokens_only(lengths):
    """Its gradient is written by hand and must be the true one."""
    grid = torch.randn(len(lengths), WIDTH, 2, requires_grad=True)
    weights = torch.randn(len(lengths), WIDTH, 2)
    layout = layout_of(lengths)
    (found,) = torch.autograd.grad((layout.pack(grid) * layout.pack(weights)).sum(), grid)
    real = torch.arange(WIDTH) < torch.tensor(lengths)[:, None]
    assert torch.equal(found, weights * real[..., None])


@given(LENGTHS)
def test_pad_passes_each_token_its_own_gradient(lengths):
    """Its gradient is written by hand and must be the true one."""
    layout = layout_of(lengths)
    weights = torch.randn(len(lengths), WIDTH, 2)
    rows = layout.pack(torch.randn(len(lengths), WIDTH, 2)).detach().requires_grad_()
    (found,) = torch.autograd.grad((layout.pad(rows) * weights).sum(), rows)
    assert torch.equal(found, layout.pack(weights))


@given(LENGTHS)
def test_positions_count_from_each_sentence_s_beginning(lengths):
    """A packed token keeps the position it has in its own sentence."""
    layout = layout_of(lengths)
    expected = torch.arange(WIDTH).expand(len(lengths), WIDTH)
    assert torch.equal(layout.positions(), layout.pack(expected))


def test_positions_of_a_grid_are_its_columns():
    """Every row counts alike, so one row says it all."""
    assert torch.equal(layout_of([1, 3], packed=False).positions(), torch.arange(WIDTH))


def test_layout_leaves_a_grid_alone_where_packing_is_off():
    """Layers are written once and run either way."""
    grid, layout = torch.randn(2, WIDTH, 3), layout_of([1, 3], packed=False)
    assert layout.pack(grid) is grid
    assert layout.pad(grid) is grid


@pytest.mark.parametrize("lengths", [None, torch.tensor([WIDTH, WIDTH])], ids=["no lengths", "full lengths"])
def test_packing_a_full_grid_copies_nothing(lengths):
    """Where there is no padding to leave out, a list is another view of the grid."""
    grid = torch.randn(2, WIDTH, 3)
    layout = Layout.of(torch.zeros(2, WIDTH, dtype=torch.long), lengths, packed=True)
    packed = layout.pack(grid)
    assert packed.shape == (2 * WIDTH, 3)
    assert packed.data_ptr() == layout.pad(packed).data_ptr() == grid.data_ptr()


@given(LENGTHS)
def test_has_padding_tells_whether_some_sentence_is_short(lengths):
    """Without padding no mask is needed."""
    assert layout_of(lengths).has_padding == (min(lengths) < WIDTH)


@pytest.mark.parametrize("lengths", [[2, 6], [-1, 3]])
def test_layout_refuses_lengths_outside_the_batch(lengths):
    """Silently reading beyond a row would mix sentences."""
    with pytest.raises(InputError, match="lengths must lie between 0 and 5, the width of the batch"):
        layout_of(lengths)
