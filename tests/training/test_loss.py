"""The chunked loss must be the plain one, only smaller."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.training import loss as loss_module
from sightline.training.loss import chunks, projected_cross_entropy


def inputs(n_rows: int, *, width: int = 8, n_words: int = 30, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        torch.randn(shape, generator=generator, requires_grad=True)
        for shape in ((n_rows, width), (n_words, width), n_words)
    )
    return hidden, weight, bias, torch.randint(0, n_words, (n_rows,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_projected_cross_entropy_equals_plain_cross_entropy(monkeypatch, smoothing, with_bias, rows_at_once):
    """Value and every gradient, whatever the size of the chunks."""
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", rows_at_once * 30 * 4)
    hidden, weight, bias, targets = inputs(20)
    leaves = [hidden, weight, bias] if with_bias else [hidden, weight]
    ours = projected_cross_entropy(hidden, weight, targets, bias=bias if with_bias else None, smoothing=smoothing)
    logits = F.linear(hidden, weight, bias if with_bias else None)
    plain = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(ours, plain)
    for found, expected in zip(
        torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * plain, leaves), strict=True
    ):
        assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_projected_cross_entropy_never_holds_all_logits(monkeypatch):
    """The largest tensor it makes is a chunk, not the batch."""
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 5 * 30 * 4)
    widths = []
    plain_exp = torch.Tensor.exp_
    monkeypatch.setattr(torch.Tensor, "exp_", lambda logits: widths.append(logits.size(0)) or plain_exp(logits))
    hidden, weight, _, targets = inputs(23)
    projected_cross_entropy(hidden, weight, targets)
    assert widths == [5, 5, 5, 5, 3]


def test_projected_cross_entropy_stays_finite_where_the_right_word_is_hopeless():
    """A probability that underflows must give a large loss, not an infinite one."""
    hidden = torch.tensor([[200.0]], requires_grad=True)
    weight = torch.tensor([[-1.0], [1.0]], requires_grad=True)
    found = projected_cross_entropy(hidden, weight, torch.tensor([0]))
    assert_close(found, torch.tensor(400.0))
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found, [hidden, weight]))


def test_projected_cross_entropy_makes_only_the_gradients_asked_for():
    """A frozen output projection costs nothing."""
    hidden, weight, _, targets = inputs(6)
    loss = projected_cross_entropy(hidden, weight.detach(), targets)
    (gradient,) = torch.autograd.grad(loss, [hidden])
    assert gradient.shape == hidden.shape
    with torch.no_grad():
        assert_close(projected_cross_entropy(hidden, weight, targets), loss.detach())


def test_projected_cross_entropy_keeps_its_precision_under_autocast():
    """Hidden states may come in half precision; the sum over a vocabulary may not."""
    hidden, weight, _, targets = inputs(6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = projected_cross_entropy(hidden.bfloat16(), weight, targets)
    assert loss.dtype == torch.float32
    assert_close(loss, projected_cross_entropy(hidden.bfloat16().float(), weight, targets))


def test_projected_cross_entropy_refuses_a_second_derivative():
    """Its gradients are made on the way forward: differentiating them again would be silently wrong."""
    hidden, weight, _, targets = inputs(3)
    (gradient,) = torch.autograd.grad(projected_cross_entropy(hidden, weight, targets), [hidden], create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient.sum().backward()


def test_projected_cross_entropy_of_nothing_is_zero():
    """A batch without targets must not leave garbage in a gradient."""
    hidden, weight, _, targets = inputs(0)
    loss = projected_cross_entropy(hidden, weight, targets, smoothing=0.1)
    assert loss == 0
    assert torch.autograd.grad(loss, [weight])[0].eq(0).all()


@settings(deadline=None, derandomize=True)
@given(n_rows=st.integers(0, 200), row_bytes=st.integers(1, 1 << 26))
def test_chunks_cover_every_row_once(n_rows, row_bytes):
    runs = chunks(n_rows, row_bytes=row_bytes, at_once=1 << 24)
    assert [i for at in runs for i in range(n_rows)[at]] == list(range(n_rows))
