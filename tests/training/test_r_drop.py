"""The loss is that of R-Drop (Liang et al. 2021), computed in chunks."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.training import r_drop as r_drop_module
from sightline.training.objective import Objective
from sightline.training.r_drop import cross_entropy, projected_r_drop

from .examples import TASKS, batch_source_of, model_for


def reference_loss(logits, targets, *, smoothing, r_drop):
    """The formula of the paper, by torch's own functions."""
    p, q = F.log_softmax(logits, dim=1).chunk(2)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    forward = F.kl_div(q, p, log_target=True, reduction="sum")
    backward = F.kl_div(p, q, log_target=True, reduction="sum")
    return loss + r_drop * (forward + backward) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_value_and_gradients_are_those_of_the_formula(monkeypatch, smoothing, with_bias, rows_at_once):
    monkeypatch.setattr(r_drop_module, "CHUNK_BYTES", 2 * rows_at_once * 30 * 8)
    generator = torch.Generator().manual_seed(3)
    shapes = [(20, 8), (30, 8), (30,)][: 3 if with_bias else 2]
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
    targets = torch.randint(0, 30, (10,), generator=generator).repeat(2)
    hidden, weight, bias = leaves if with_bias else (*leaves, None)
    logits = F.linear(hidden, weight, bias)
    expected = reference_loss(logits, targets, smoothing=smoothing, r_drop=5.0)
    found = projected_r_drop(hidden, weight, targets, bias=bias, smoothing=smoothing, r_drop=5.0)
    assert_close(found, expected)
    assert_close(cross_entropy(logits, targets, smoothing=smoothing, r_drop=5.0), expected)
    for ours, theirs in zip(
        torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * expected, leaves), strict=True
    ):
        assert_close(ours, theirs)


def test_rows_come_in_two_halves():
    weight = torch.ones(5, 3)
    assert float(projected_r_drop(torch.ones(0, 3), weight, torch.zeros(0).long(), r_drop=1.0)) == 0
    with pytest.raises(InputError, match="two halves"):
        projected_r_drop(torch.ones(3, 3), weight, torch.zeros(3).long(), r_drop=1.0)


@pytest.mark.parametrize("task", TASKS)
def test_without_dropout_nothing_is_added(task):
    model = model_for(task).eval()
    for batch in batch_source_of(task).epoch(0):
        once, twice = (Objective(0.1, 2.5, r_drop=weight)(model, batch) for weight in (0.0, 5.0))
        assert twice.count == once.count
        assert_close(twice.total, once.total, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_with_dropout_the_divergence_is_added(task):
    model = model_for(task, dropout=0.3).train()
    batch = batch_source_of(task).epoch(0)[0]
    losses = []
    for weight in (1e-9, 5.0):
        torch.manual_seed(1)
        losses.append(float(Objective(r_drop=weight)(model, batch).total.detach()))
    assert losses[1] > losses[0]
