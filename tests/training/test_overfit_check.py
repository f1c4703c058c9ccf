"""Whether a model can overfit one batch."""

import pytest
import torch

from sightline.training.overfit_check import OverfitCheck, run_overfit_check

from .small import generators_now, mean_loss, small_batch
from .toy import FAMILIES, digest, tiny_model

SHAPES = [(8, 1), (16, 2), (32, 6)]
MANY_STEPS = 150
"""More than twice as many as any of these models needs: the check ends when the batch is learned."""


def layers(family: str, n: int) -> dict[str, int]:
    half = (n + 1) // 2
    return {"n_encoder_layers": half, "n_decoder_layers": half} if family == "transformer" else {"n_layers": n}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_sound_model_of_any_family_overfits_a_batch(family, width, depth):
    model = tiny_model(family, d_model=width, d_ff=4 * width, **layers(family, depth))
    found = run_overfit_check(model, small_batch(family), mean_loss, steps=MANY_STEPS)
    assert found.passed, found
    assert found.final_loss < 0.1 * found.initial_loss
    assert found.describe().startswith("passed, the model can overfit a batch: the loss on one small batch went from ")


@pytest.mark.parametrize("family", FAMILIES)
def test_model_and_generators_stay_as_they_are(family):
    model = tiny_model(family)
    mean_loss(model, small_batch(family)).backward()
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    before, generators = digest(tensors), generators_now()
    run_overfit_check(model, small_batch(family), mean_loss, steps=3)
    assert digest(tensors) == before
    assert generators_now() == generators
    assert model.training


def test_dropout_is_off():
    model = tiny_model("gpt", dropout=0.9)
    assert run_overfit_check(model, small_batch("gpt"), mean_loss, steps=MANY_STEPS).passed


def test_frozen_model_fails_with_its_cause():
    model = tiny_model("gpt").requires_grad_(False)
    found = run_overfit_check(model, small_batch("gpt"), mean_loss)
    assert not found.passed
    assert found.initial_loss == found.final_loss
    assert "it hardly moved: the weights are frozen" in found.describe()


def test_loss_that_does_not_reach_the_weights_is_found():
    found = run_overfit_check(
        tiny_model("gpt"), small_batch("gpt"), lambda model, batch: torch.ones((), requires_grad=True)
    )
    assert "it hardly moved" in found.describe()


def test_contradicting_targets_are_found():
    """With several targets for one source, the best a model can do is guess."""
    batch = small_batch("transformer", n_rows=4, length=3)
    batch.source[:] = batch.source[0]
    batch.inputs[:] = batch.inputs[0]
    batch.targets[:] = torch.arange(1, 5)[:, None]
    found = run_overfit_check(tiny_model("transformer"), batch, mean_loss)
    assert "or the same input occurs with different targets" in found.describe()


def test_learning_rate_that_is_given_is_the_one_that_is_used():
    found = run_overfit_check(tiny_model("gpt"), small_batch("gpt"), mean_loss, learning_rate=1e-9)
    assert not found.passed


@pytest.mark.parametrize(
    ("initial_loss", "final_loss", "cause"),
    [
        (float("nan"), float("nan"), "not finite from the start"),
        (3.0, float("inf"), "it diverged"),
        (3.0, 2.9, "hardly moved"),
        (3.0, 1.5, "this one may be too small"),
    ],
)
def test_failure_names_its_likely_cause(initial_loss, final_loss, cause):
    assert cause in OverfitCheck(initial_loss, final_loss, passed=False).describe()


def test_loss_that_is_not_a_number_ends_the_check_at_once():
    model = tiny_model("gpt")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    assert "from the start" in run_overfit_check(model, small_batch("gpt"), mean_loss).describe()
