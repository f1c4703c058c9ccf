"""Whether a model can learn one batch by heart."""

import pytest
import torch

from sightline.training.self_check import SelfCheck, self_check

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
def test_sound_model_of_any_family_learns_a_batch_by_heart(family, width, depth):
    model = tiny_model(family, d_model=width, d_ff=4 * width, **layers(family, depth))
    found = self_check(model, small_batch(family), mean_loss, steps=MANY_STEPS)
    assert found.passed, found
    assert found.last < 0.1 * found.first
    assert found.sentence().startswith("it learns: the loss on one small batch went from ")


@pytest.mark.parametrize("family", FAMILIES)
def test_model_and_generators_stay_as_they_are(family):
    model = tiny_model(family)
    mean_loss(model, small_batch(family)).backward()
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    before, generators = digest(tensors), generators_now()
    self_check(model, small_batch(family), mean_loss, steps=3)
    assert digest(tensors) == before
    assert generators_now() == generators
    assert model.training


def test_dropout_is_off():
    model = tiny_model("gpt", dropout=0.9)
    assert self_check(model, small_batch("gpt"), mean_loss, steps=MANY_STEPS).passed


def test_frozen_model_does_not_learn_and_the_reason_is_said():
    model = tiny_model("gpt").requires_grad_(False)
    found = self_check(model, small_batch("gpt"), mean_loss)
    assert not found.passed
    assert found.first == found.last
    assert "it hardly moved: the weights that matter are frozen" in found.sentence()


def test_loss_that_does_not_reach_the_weights_is_found():
    found = self_check(tiny_model("gpt"), small_batch("gpt"), lambda model, batch: torch.ones((), requires_grad=True))
    assert "it hardly moved" in found.sentence()


def test_contradicting_targets_are_found():
    """The same source must lead to one target: else the best one can do is guess."""
    batch = small_batch("transformer", n_rows=4, length=3)
    batch.source[:] = batch.source[0]
    batch.inputs[:] = batch.inputs[0]
    batch.targets[:] = torch.arange(1, 5)[:, None]
    found = self_check(tiny_model("transformer"), batch, mean_loss)
    assert "or the same input stands there with different targets" in found.sentence()


def test_learning_rate_that_is_given_is_the_one_that_is_used():
    found = self_check(tiny_model("gpt"), small_batch("gpt"), mean_loss, learning_rate=1e-9)
    assert not found.passed


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        (float("nan"), float("nan"), "not a number from the start"),
        (3.0, float("inf"), "did not stay a number"),
        (3.0, 2.9, "hardly moved"),
        (3.0, 1.5, "too small for what it must tell apart"),
    ],
)
def test_failure_says_what_is_probably_wrong(first, last, reason):
    assert reason in SelfCheck(first, last, passed=False).sentence()


def test_loss_that_is_not_a_number_ends_the_check_at_once():
    model = tiny_model("gpt")
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    assert "from the start" in self_check(model, small_batch("gpt"), mean_loss).sentence()
