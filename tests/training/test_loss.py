"""The chunked loss must be the plain one, only smaller; with R-Drop it must be that of Liang et al. (2021)."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.runtime import MIN_ROWS, Products, multiply_by
from sightline.training import loss as loss_module
from sightline.training.loss import cross_entropy, projected_cross_entropy, way_of_projection
from sightline.training.objective import Objective

from .examples import TASKS, batch_source_of, model_for


def inputs(n_rows: int, *, width: int = 8, n_words: int = 30, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True)
        for shape in ((n_rows, width), (n_words, width), n_words)
    )
    return hidden, weight, bias, torch.randint(0, n_words, (n_rows,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_projected_cross_entropy_equals_plain_cross_entropy(monkeypatch, smoothing, with_bias, rows_at_once):
    """Value and every gradient, whatever the size of the chunks."""
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", rows_at_once * 30 * 8)
    hidden, weight, bias, targets = inputs(20, dtype=torch.float64)
    leaves = [hidden, weight, bias] if with_bias else [hidden, weight]
    ours = projected_cross_entropy(hidden, weight, targets, bias=bias if with_bias else None, smoothing=smoothing)
    logits = F.linear(hidden, weight, bias if with_bias else None)
    plain = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(ours, plain)
    for found, expected in zip(
        torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * plain, leaves), strict=True
    ):
        assert_close(found, expected)


def chosen(way):
    """Multiply 8 inputs by 30 outputs in this way."""
    return multiply_by(Products(projection={"8x30": way}))


@pytest.mark.parametrize("way", ["onednn", "bfloat16"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_projected_cross_entropy_by_another_way_is_the_same_to_its_digits(monkeypatch, way, smoothing, with_bias):
    """Value, sums in 32 bits, and every gradient; in chunks."""
    n_rows = MIN_ROWS + 50
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 100 * 30 * 4)  # three chunks, or two of half as wide numbers
    hidden, weight, bias, targets = inputs(n_rows)
    leaves = [hidden, weight, bias] if with_bias else [hidden, weight]
    found = []
    for one in (way, "default"):
        with chosen(one):
            total = projected_cross_entropy(
                hidden, weight, targets, bias=bias if with_bias else None, smoothing=smoothing
            )
            found.append((total, torch.autograd.grad(total / n_rows, leaves)))
    (ours, gradients), (plain, expected) = found
    assert_close(ours / n_rows, plain / n_rows, atol=0.01, rtol=0.0)
    for mine, theirs in zip(gradients, expected, strict=True):
        assert mine.dtype == torch.float32
        assert_close(mine, theirs, atol=0.03 * float(theirs.abs().max()), rtol=0.02)


def test_sixteen_bits_are_left_out_where_digits_count(monkeypatch):
    """R-Drop compares two nearly equal distributions, and validation compares losses; few rows are not worth it."""
    hidden, weight, _, targets = inputs(2 * MIN_ROWS)
    rows = slice(None, MIN_ROWS - 1)
    with chosen("bfloat16"), torch.no_grad():
        assert way_of_projection(hidden, weight) == "default"
    taken = []
    monkeypatch.setattr(loss_module, "by_way", lambda way: taken.append(way) or nullcontext())
    with chosen("bfloat16"):
        assert way_of_projection(hidden, weight) == "bfloat16"
        assert way_of_projection(hidden[rows], weight) == "default"
        found = projected_cross_entropy(hidden, weight, targets, r_drop=1.0)
    assert taken == ["default"]
    assert torch.equal(found, projected_cross_entropy(hidden, weight, targets, r_drop=1.0))


def test_sixteen_bits_stay_finite_where_the_right_word_is_hopeless():
    hidden, weight = torch.full((MIN_ROWS, 1), 200.0), torch.tensor([[-1.0], [1.0]])
    leaves = [hidden.requires_grad_(), weight.requires_grad_()]
    with multiply_by(Products(projection={"1x2": "bfloat16"})):
        found = projected_cross_entropy(hidden, weight, torch.zeros(MIN_ROWS, dtype=torch.long))
    assert found.isfinite()
    assert found > 80 * MIN_ROWS  # the smallest probability there is, instead of e⁻⁴⁰⁰
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found, leaves))


def test_projected_cross_entropy_never_holds_all_logits(monkeypatch):
    """The largest tensor it makes is a chunk, not the batch."""
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", 5 * 30 * 4)
    widths = []
    plain_exp = torch.Tensor.exp_
    monkeypatch.setattr(torch.Tensor, "exp_", lambda logits: widths.append(logits.numel() // 30) or plain_exp(logits))
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


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_projected_cross_entropy_makes_no_gradients_without_autograd(monkeypatch, r_drop):
    """Validation needs the value alone."""
    monkeypatch.setattr(torch.Tensor, "addmm_", None)  # what adds to the gradient of the weights
    hidden, weight, _, targets = inputs(6, dtype=torch.float64)
    with torch.no_grad():
        found = projected_cross_entropy(hidden, weight, targets, r_drop=r_drop)
        assert_close(found, cross_entropy(hidden @ weight.mT, targets, r_drop=r_drop))
    with pytest.raises(TypeError, match="not callable"):
        projected_cross_entropy(hidden, weight, targets, r_drop=r_drop)


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


def reference_r_drop(logits, targets, *, smoothing, r_drop):
    """The formula of the paper, by torch's own functions."""
    p, q = F.log_softmax(logits, dim=1).chunk(2)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    forward = F.kl_div(q, p, log_target=True, reduction="sum")
    backward = F.kl_div(p, q, log_target=True, reduction="sum")
    return loss + r_drop * (forward + backward) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_r_drop_equals_the_formula(monkeypatch, smoothing, with_bias, rows_at_once):
    """Value and every gradient, whatever the size of the chunks."""
    monkeypatch.setattr(loss_module, "R_DROP_CHUNK_BYTES", 2 * rows_at_once * 30 * 8)
    generator = torch.Generator().manual_seed(3)
    shapes = [(20, 8), (30, 8), (30,)][: 3 if with_bias else 2]
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
    targets = torch.randint(0, 30, (10,), generator=generator).repeat(2)
    hidden, weight, bias = leaves if with_bias else (*leaves, None)
    logits = F.linear(hidden, weight, bias)
    expected = reference_r_drop(logits, targets, smoothing=smoothing, r_drop=5.0)
    found = projected_cross_entropy(hidden, weight, targets, bias=bias, smoothing=smoothing, r_drop=5.0)
    assert_close(found, expected)
    assert_close(cross_entropy(logits, targets, smoothing=smoothing, r_drop=5.0), expected)
    for ours, theirs in zip(
        torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves), strict=True
    ):
        assert_close(ours, theirs)


def test_r_drop_rows_come_in_two_halves():
    weight = torch.ones(5, 3)
    assert float(projected_cross_entropy(torch.ones(0, 3), weight, torch.zeros(0).long(), r_drop=1.0)) == 0
    with pytest.raises(InputError, match="two halves"):
        projected_cross_entropy(torch.ones(3, 3), weight, torch.zeros(3).long(), r_drop=1.0)


@pytest.mark.parametrize("task", TASKS)
def test_r_drop_without_dropout_adds_nothing(task):
    model = model_for(task).eval()
    for batch in batch_source_of(task).epoch(0):
        once, twice = (Objective(0.1, 2.5, r_drop=weight)(model, batch) for weight in (0.0, 5.0))
        assert twice.count == once.count
        assert_close(twice.total, once.total, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_r_drop_with_dropout_adds_the_divergence(task):
    model = model_for(task, dropout=0.3).train()
    batch = batch_source_of(task).epoch(0)[0]
    losses = []
    for weight in (1e-9, 5.0):
        torch.manual_seed(1)
        losses.append(float(Objective(r_drop=weight)(model, batch).total.detach()))
    assert losses[1] > losses[0]
