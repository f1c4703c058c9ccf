"""Matrix products in the way that was chosen for their shape: the same results, to the digits that the way keeps."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from sightline.model.attention import attend, attend_batched, batches_pay
from sightline.model.masks import Mask, causal_mask
from sightline.model.products import Linear, by_way, linear, onednn
from sightline.runtime import MIN_ROWS, Products, current_products, multiply_by

ROUNDED = {"atol": 0.03, "rtol": 0.02}
"""Factors of 16 bits keep eight digits. oneDNN may take them too, on processors where that is faster."""


def ways(way: str, inputs: int, outputs: int) -> Products:
    return Products({f"{inputs}x{outputs}": way})


def results(way, x, weight, bias, gradient):
    """Return the result of a linear map and its gradients."""
    leaves = [None if one is None else one.clone().requires_grad_() for one in (x, weight, bias)]
    with multiply_by(ways(way, weight.size(1), weight.size(0))):
        result = linear(*leaves)
        result.backward(gradient)
    return [result.detach(), *(leaf.grad for leaf in leaves if leaf is not None)]


@pytest.mark.parametrize("way", ["onednn", "bfloat16"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(MIN_ROWS,), (4, MIN_ROWS // 4)])
def test_linear_and_its_gradients_equal_torchs(way, with_bias, shape):
    x, weight, bias = torch.randn(*shape, 12), torch.randn(20, 12) / 4, torch.randn(20)
    gradient = torch.randn(*shape, 20) / MIN_ROWS
    found = results(way, x, weight, bias if with_bias else None, gradient)
    expected = results("default", x, weight, bias if with_bias else None, gradient)
    assert len(found) == 3 + with_bias
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        assert_close(mine, theirs, **ROUNDED)


def test_sixteen_bits_are_really_taken_where_they_are_chosen():
    x, weight = torch.randn(MIN_ROWS, 12), torch.randn(20, 12)
    with multiply_by(ways("bfloat16", 12, 20)):
        found = linear(x.requires_grad_(), weight)
    assert not torch.equal(found, F.linear(x, weight))
    assert torch.equal(found, F.linear(x.bfloat16(), weight.bfloat16()).float())


@pytest.mark.parametrize("case", ["nobody chose", "another shape", "few rows", "no gradients", "64 bits"])
def test_everything_else_is_torchs_own_product(case):
    n_rows = MIN_ROWS - 1 if case == "few rows" else MIN_ROWS
    dtype = torch.float64 if case == "64 bits" else torch.float32
    layer, x = Linear(12, 20).to(dtype), torch.randn(n_rows, 12, dtype=dtype)
    products = ways("bfloat16", 12, 21 if case == "another shape" else 20)
    with torch.set_grad_enabled(case != "no gradients"):
        if case == "nobody chose":
            found = layer(x)
        else:
            with multiply_by(products):
                found = layer(x)
    assert torch.equal(found, F.linear(x, layer.weight, layer.bias))


def test_choice_ends_with_its_block():
    assert current_products() is None
    with pytest.raises(ZeroDivisionError):
        fail_within(multiply_by(Products()))
    assert current_products() is None


def fail_within(block):
    """Raise within a block that changes something for as long as it lasts."""
    with block:
        assert current_products() == Products() or torch.backends.mkldnn.matmul.fp32_precision == "bf16"
        _ = 1 / 0


def test_library_is_chosen_for_single_products_only():
    """The setting is the process's: whatever comes next must not inherit it."""
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    with pytest.raises(ZeroDivisionError):
        fail_within(onednn())
    assert matmul.fp32_precision == before
    with by_way("default"):
        assert matmul.fp32_precision == before
    with pytest.raises(ValueError, match="bfloat16 is a way of single products"):
        by_way("bfloat16").__enter__()


def masked(n_texts, n_queries, n_keys):
    visible = torch.arange(n_keys) < torch.arange(1, n_texts + 1)[:, None].clamp(min=2)
    return Mask.of(visible[:, None, None])


@pytest.mark.parametrize("mask", [None, Mask.of(causal_mask(5)), masked(3, 5, 5)], ids=["no mask", "causal", "padding"])
@pytest.mark.parametrize("transposed", [True, False])
def test_batched_attention_equals_the_formula(mask, transposed):
    """Forward and backward, whatever the layout in memory."""

    def draw():
        return torch.randn(3, 5, 2, 4).transpose(1, 2) if transposed else torch.randn(3, 2, 5, 4)

    first = [draw().requires_grad_() for _ in range(3)]
    second = [one.detach().clone().requires_grad_() for one in first]
    gradient = draw()
    found, (expected, _) = attend_batched(*first, mask), attend(*second, mask)
    assert_close(found, expected, **ROUNDED)
    found.backward(gradient)
    expected.backward(gradient)
    for mine, theirs in zip(first, second, strict=True):
        assert_close(mine.grad, theirs.grad, **ROUNDED)


def test_batched_attention_reads_sources_of_another_length():
    query, key, value = torch.randn(3, 2, 4, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 8)
    mask = masked(3, 4, 7)
    assert_close(attend_batched(query, key, value, mask), attend(query, key, value, mask)[0], **ROUNDED)


def test_batches_are_formed_only_in_training_where_they_were_chosen():
    query, key = torch.randn(2, 4, 3, 8, requires_grad=True), torch.randn(2, 4, 5, 8)
    nobody = Mask.of(torch.tensor([[True] * 5, [False] * 5])[:, None, None])  # an empty source
    assert not batches_pay(query, key, None)
    with multiply_by(Products(attention="batched")):
        assert batches_pay(query, key, None)
        assert batches_pay(query, key, masked(2, 3, 5))
        assert not batches_pay(query, key, nobody)  # a softmax over nothing
        assert not batches_pay(query, key[:, :2], None)  # grouped heads
        assert not batches_pay(query.double(), key.double(), None)
        with torch.no_grad():
            assert not batches_pay(query, key, None)
    with multiply_by(Products()):
        assert not batches_pay(query, key, None)


@pytest.mark.parametrize("n_rows", [1, MIN_ROWS - 1, MIN_ROWS, MIN_ROWS + 1, 511, 512, 513, 4116])
def test_rows_are_rounded_to_few_sizes(n_rows):
    """A library that builds a kernel for each shape meets 16 from one power of two to the next."""
    chosen = ways("onednn", 12, 20)
    assert Products().round_rows(n_rows) == n_rows
    rounded = chosen.round_rows(n_rows)
    assert n_rows <= rounded <= max(n_rows * 17 / 16, MIN_ROWS)
    assert rounded == chosen.round_rows(rounded)
    sizes = {chosen.round_rows(n) for n in range(1024, 2048)}
    assert len(sizes) <= 17
