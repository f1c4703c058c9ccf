"""Losses are sums: those of the parts of a batch add up to that of the whole, gradients too."""

import numpy as np
import pytest
import torch

from sightline.data.datasets.batch import PairBatch
from sightline.training.objective import Objective

from .examples import TASKS, batch_source_of, model_for


def gradients(model, losses):
    model.zero_grad()
    for loss in losses:
        loss.total.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("task", TASKS)
def test_rank_slices_of_every_batch_add_up_to_the_whole(task):
    model, objective = model_for(task), Objective(smoothing=0.1, nsp_weight=2.5)
    whole, slices = (
        batch_source_of(task).epoch(2),
        [batch_source_of(task, rank=rank, world=2).epoch(2) for rank in (0, 1)],
    )
    together = [objective(model, batch) for batch in whole]
    apart = [objective(model, batch) for part in slices for batch in part if len(batch)]
    assert sum(loss.count for loss in together) == sum(loss.count for loss in apart)
    total = sum(loss.total for loss in together)
    torch.testing.assert_close(sum(loss.total for loss in apart), total, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(gradients(model, apart), gradients(model, together), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_small_batches_hold_what_large_ones_hold(task):
    model, objective = model_for(task), Objective()
    sums = []
    for size in (60, 400):
        losses = [objective(model, batch) for batch in batch_source_of(task, batch_tokens=size).epoch(1)]
        sums.append((sum(loss.count for loss in losses), float(sum(loss.total for loss in losses).detach())))
    assert sums[0][0] == sums[1][0]
    assert sums[0][1] == pytest.approx(sums[1][1], rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_an_untrained_model_is_about_as_wrong_as_chance(task):
    model, objective = model_for(task).eval(), Objective()
    losses = [objective(model, batch) for batch in batch_source_of(task).epoch(0)]
    classes = 3 if task in ("labeled", "tagged") else model.config.vocab_size
    mean = float(sum(loss.total for loss in losses).detach()) / sum(loss.count for loss in losses)
    extra = np.log(2) * 1.2 if task == "sentences" else 0  # next sentence prediction
    assert np.log(classes) * 0.8 < mean < np.log(classes) * 1.3 + extra


def test_correct_predictions_are_counted():
    model, objective = model_for("labeled"), Objective()
    tallies = [objective(model, batch).tallies["accuracy"] for batch in batch_source_of("labeled").epoch(0)]
    assert sum(count for _, count in tallies) == 40
    assert all(0 <= right <= count for right, count in tallies)


def test_a_batch_of_another_task_is_refused():
    batch = batch_source_of("pairs").epoch(0)[0]
    assert isinstance(batch, PairBatch)
    with pytest.raises(TypeError, match="a Bert cannot be trained on a PairBatch"):
        Objective()(model_for("labeled"), batch)
