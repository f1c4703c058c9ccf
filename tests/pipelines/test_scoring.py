"""Teacher forcing in batches: what is read of a target is what the model gives for it alone."""

import pytest
import torch
from torch.testing import assert_close

from sightline.model import ActivationCache
from sightline.pipelines.scoring import compute_cross_attention, target_token_log_probs

from .tiny import precise, translator_bundle

START = 1
SOURCES = [[7, 8, 9], [10], [11, 12], [5, 6, 7, 8, 9, 10], [13]]
TARGETS = [[20, 21], [22, 23, 24, 25], [], [26], [27, 28, 29]]


@pytest.fixture
def model():
    return precise(translator_bundle()).model.eval()


@pytest.mark.parametrize("batch_tokens", [1, 40, 4_096])
@torch.inference_mode()
def test_log_probs_of_targets_are_those_of_the_whole_logits(model, batch_tokens):
    found = target_token_log_probs(model, SOURCES, TARGETS, start_id=START, batch_tokens=batch_tokens)
    for source, target, ours in zip(SOURCES, TARGETS, found, strict=True):
        logits = model(torch.tensor([source]), torch.tensor([[START, *target]]))[0, : len(target)]
        expected = logits.log_softmax(dim=-1)[torch.arange(len(target)), target]
        assert_close(ours, expected.float())


@pytest.mark.parametrize("batch_tokens", [1, 40, 4_096])
@torch.inference_mode()
def test_cross_attention_of_targets_is_that_of_each_alone(model, batch_tokens):
    found = compute_cross_attention(model, SOURCES, TARGETS, start_id=START, batch_tokens=batch_tokens)
    point = model.cross_attention_point
    for source, target, ours in zip(SOURCES, TARGETS, found, strict=True):
        activations = ActivationCache(point)
        model(torch.tensor([source]), torch.tensor([[START, *target]]), hooks=activations)
        assert_close(ours, activations[point].mean(dim=1)[0, : len(target)], check_dtype=bool(target))


@torch.inference_mode()
def test_targets_without_tokens_have_nothing_to_score(model):
    options = {"start_id": START, "batch_tokens": 100}
    assert [len(one) for one in target_token_log_probs(model, SOURCES, [[]] * 5, **options)] == [0] * 5
    shapes = [one.shape for one in compute_cross_attention(model, SOURCES, [[]] * 5, **options)]
    assert shapes == [(0, len(source)) for source in SOURCES]
