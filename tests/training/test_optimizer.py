"""Every parameter has its optimizer, no update spoils the weights, and our Muon is torch's but for its precision."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from sightline.errors import SightlineError
from sightline.training.optimizer import Muon, Optimizer, make_optimizer, orthogonalize
from sightline.training.settings import TrainingSettings

from .toy import FAMILIES, SETTINGS, digest, fingerprint, new_state, tiny_model, train

ADAM = TrainingSettings()
ADAMW = replace(SETTINGS, optimizer="adamw")
MUON = replace(SETTINGS, optimizer="muon")
EVERY_OPTIMIZER = pytest.mark.parametrize("settings", [ADAM, ADAMW, MUON], ids=lambda settings: settings.optimizer)
BAD = pytest.mark.parametrize(("value", "word"), [(math.nan, "NaN"), (math.inf, "infinity"), (-math.inf, "infinity")])


def names_of(group: dict) -> set[str]:
    return set(group["param_names"])


def give_gradients(model: nn.Module, value: float = 0.01) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)


@EVERY_OPTIMIZER
@pytest.mark.parametrize("family", FAMILIES)
def test_optimizer_has_every_parameter_once(family, settings):
    """Tied weights are one parameter."""
    model = tiny_model(family)
    names = [name for name, _ in make_optimizer(model, settings).named_parameters()]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_adamw_decays_matrices_but_no_norm_bias_or_embedding(family):
    (part,) = make_optimizer(tiny_model(family), ADAMW).parts
    decayed, plain = part.param_groups
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    assert not [name for name in names_of(decayed) if "norm" in name or "embedding" in name or name.endswith("bias")]
    assert all(p.ndim == 1 for n, p in zip(plain["param_names"], plain["params"], strict=True) if "embedding" not in n)


def test_adamw_decays_an_output_projection_of_its_own():
    (part,) = make_optimizer(tiny_model("gpt", tie_embeddings=False), ADAMW).parts
    assert "output.weight" in names_of(part.param_groups[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_muon_takes_the_matrices_within_layers_only(family):
    muon, adamw = make_optimizer(tiny_model(family), MUON).parts
    assert (type(muon), type(adamw)) == (Muon, torch.optim.AdamW)
    hidden = names_of(muon.param_groups[0])
    assert all(".layers." in name and name.endswith("weight") and "norm" not in name for name in hidden)
    others = [name for group in adamw.param_groups for name in group["param_names"]]
    assert not [name for name in others if ".layers." in name and not ("norm" in name or name.endswith("bias"))]


def test_frozen_parameters_are_left_out():
    model = tiny_model("gpt")
    model.embedding.requires_grad_(requires_grad=False)
    names = [name for name, _ in make_optimizer(model, MUON).named_parameters()]
    assert not [name for name in names if name.startswith("embedding")]


def test_model_with_nothing_to_train_is_refused():
    model = tiny_model("gpt").requires_grad_(requires_grad=False)
    with pytest.raises(SightlineError, match="no trainable parameters"):
        make_optimizer(model, ADAM)


@pytest.mark.parametrize("settings", [ADAM, ADAMW], ids=["adam", "adamw"])
def test_adam_is_fused_on_the_processor(settings):
    (part,) = make_optimizer(tiny_model(), settings).parts
    assert all(group["fused"] for group in part.param_groups)


def test_adam_update_equals_torchs():
    ours, theirs = tiny_model(), tiny_model()
    give_gradients(ours)
    give_gradients(theirs)
    make_optimizer(ours, ADAM).update(1, learning_rate=0.01)
    torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9).step()
    for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(found, expected)


@EVERY_OPTIMIZER
def test_every_part_gets_the_learning_rate_of_the_step(settings):
    model = tiny_model()
    before = digest(model.parameters())
    optimizer = make_optimizer(model, settings)
    give_gradients(model)
    optimizer.update(1, learning_rate=0.0)
    assert digest(model.parameters()) == before
    optimizer.update(2, learning_rate=0.5)
    assert {group["lr"] for part in optimizer.parts for group in part.param_groups} == {0.5}


@pytest.mark.parametrize("grad_clip", [0.0, 0.5, 1e5])
def test_update_clips_as_torch_does_and_reports_the_norm_before(grad_clip):
    ours, theirs = tiny_model(), tiny_model()
    give_gradients(ours, 1.0)
    give_gradients(theirs, 1.0)
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), grad_clip or math.inf)
    result = make_optimizer(ours, ADAM).update(1, learning_rate=0.01, grad_clip=grad_clip)
    assert math.isclose(result.gradient_norm, float(expected), rel_tol=1e-6)
    for found, plain in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(found.grad, plain.grad)


@BAD
@EVERY_OPTIMIZER
def test_bad_gradient_is_named_and_leaves_everything_as_it_was(settings, value, word):
    state = new_state(settings=replace(settings, gradient_accumulation=1))
    train(state, replace(settings, gradient_accumulation=1), n_batches=2)  # so that the optimizer has state
    give_gradients(state.model)
    bad = "decoder.layers.0.feed_forward.up_proj.weight"
    state.model.get_parameter(bad).grad[0, 0] = value
    before = fingerprint(state)
    result = state.optimizer.update(1234, learning_rate=0.1, grad_clip=1.0, on_non_finite="skip")
    assert result.problem == f"step 1,234: the gradient of {bad} holds {word}; update skipped"
    assert not math.isfinite(result.gradient_norm)
    assert fingerprint(state) == before


def test_bad_gradient_stops_the_run_if_asked_to():
    state = new_state()
    give_gradients(state.model)
    state.model.embedding.tokens.weight.grad[0, 0] = math.nan
    before = fingerprint(state)
    sentence = r"step 7: the gradient of embedding.tokens.weight holds NaN; the run is stopped.*lower learning rate"
    with pytest.raises(SightlineError, match=sentence):
        state.optimizer.update(7, learning_rate=0.1, on_non_finite="stop")
    assert fingerprint(state) == before


def test_several_bad_gradients_are_counted():
    state = new_state()
    give_gradients(state.model, math.nan)
    result = state.optimizer.update(1, learning_rate=0.1)
    n_others = len(list(state.model.parameters())) - 1
    assert f"and those of {n_others} more parameters are not finite" in (result.problem or "")


def test_gradient_whose_norm_overflows_is_not_applied():
    """Finite numbers whose squares are not would be clipped to zero without a word."""
    state = new_state()
    give_gradients(state.model, 1e30)
    before = digest(state.model.parameters())
    result = state.optimizer.update(1, learning_rate=0.1, grad_clip=1.0)
    assert "the gradient norm overflows" in (result.problem or "")
    assert digest(state.model.parameters()) == before


def test_run_goes_on_after_a_skipped_update():
    state = new_state()
    give_gradients(state.model, math.nan)
    state.optimizer.update(1, learning_rate=0.1)
    state.optimizer.zero_grad()
    give_gradients(state.model)
    assert state.optimizer.update(2, learning_rate=0.1).problem is None


def test_parameters_without_a_gradient_stay_as_they_are():
    model = tiny_model("bert")
    optimizer = make_optimizer(model, ADAM)
    model.embedding.tokens.weight.grad = torch.ones_like(model.embedding.tokens.weight)
    others = [p for p in model.parameters() if p.grad is None]
    before = digest(others)
    optimizer.update(1, learning_rate=0.1)
    assert digest(others) == before


def test_zero_grad_clears_the_gradients_of_every_part():
    model = tiny_model()
    give_gradients(model)
    optimizer = make_optimizer(model, MUON)
    assert isinstance(optimizer, Optimizer)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


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
