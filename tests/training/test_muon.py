"""Our Muon is torch's, but for the precision of its matrix products."""

import pytest
import torch
from torch.testing import assert_close

from sightline.training.muon import Muon, orthogonalize

SHAPES = [(8, 8), (16, 8), (8, 16), (16, 8)]


def matrices(seed: int) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def test_updates_are_those_of_torch_but_for_its_sixteen_bits():
    settings = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.9}
    ours, theirs = matrices(1), matrices(1)
    optimizers = Muon(ours, **settings), torch.optim.Muon(theirs, adjust_lr_fn="match_rms_adamw", **settings)
    for step in range(3):
        for gradients, parameters in ((matrices(10 + step), ours), (matrices(10 + step), theirs)):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.detach()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, begin in zip(ours, theirs, matrices(1), strict=True):
        assert float((one - begin).detach().abs().max()) > 0.01
        assert_close(one, other, atol=2e-3, rtol=0)
        assert_close(optimizers[0].state[one]["momentum_buffer"], optimizers[1].state[other]["momentum_buffer"])


def test_singular_values_come_near_one():
    group = torch.optim.Muon(matrices(1)).param_groups[0]
    for parameter in matrices(2):
        found = torch.linalg.svdvals(orthogonalize(parameter.detach()[None], group)[0])
        assert float(found.min()) > 0.4
        assert float(found.max()) < 1.4


def test_matrix_without_gradient_stays():
    first, second, *_ = matrices(1)
    before = second.detach().clone()
    first.grad = torch.ones_like(first)
    optimizer = Muon([first, second], lr=0.02)
    optimizer.step()
    assert_close(second.detach(), before, atol=0, rtol=0)
    with pytest.raises(NotImplementedError):
        optimizer.step(lambda: None)
