"""A resumed run is the uninterrupted run, to the last bit: T4 of the reliability page."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline.training.checkpoint import resume, save_checkpoint

from .toy import FAMILIES, SETTINGS, fingerprint, new_state, train

N_BATCHES = 18  # six updates of three batches, over two and a half epochs
STOPS = random.Random(4).sample(range(1, N_BATCHES), 4)  # noqa: S311
OPTIMIZERS = {"adam": {"weight_decay": 0.0}, "adamw": {}, "muon": {}}


def settings_for(optimizer: str):
    return replace(SETTINGS, optimizer=optimizer, **OPTIMIZERS[optimizer])


def scramble_generators() -> None:
    """Leave every generator where a new process might have it."""
    random.seed(77)
    np.random.seed(77)  # noqa: NPY002
    torch.manual_seed(77)


def test_stops_are_within_accumulation_and_between_updates():
    assert {stop % SETTINGS.gradient_accumulation for stop in STOPS} == {0, 1, 2}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_resumed_run_equals_the_uninterrupted_one(family, optimizer, tmp_path):
    """Dropout, accumulation, running average, clipping, label smoothing: every later loss and all that is left."""
    settings = settings_for(optimizer)
    whole = new_state(family, settings)
    losses = train(whole, settings, n_batches=N_BATCHES)
    for stop in STOPS:
        first = new_state(family, settings)
        assert train(first, settings, n_batches=stop) == losses[:stop]
        folder = tmp_path / str(stop)
        save_checkpoint(first, folder, keep_checkpoints=1)
        second = new_state(family, settings, seed=99)
        scramble_generators()
        resumed = resume(second, folder)
        assert resumed is not None
        assert resumed.notes == ()
        assert train(second, settings, n_batches=N_BATCHES - stop) == losses[stop:]
        assert fingerprint(second) == fingerprint(whole)


def test_saving_does_not_change_the_run(tmp_path):
    undisturbed = new_state()
    losses = train(undisturbed, SETTINGS, n_batches=9)
    saved = new_state()
    found = []
    for _ in range(9):
        found += train(saved, SETTINGS, n_batches=1)
        save_checkpoint(saved, tmp_path, keep_checkpoints=2)
    assert found == losses
    assert fingerprint(saved) == fingerprint(undisturbed)


def test_resume_without_the_random_states_would_differ(tmp_path, monkeypatch):
    """The test above is worth something only if dropout really draws."""
    whole = new_state()
    losses = train(whole, SETTINGS, n_batches=9)
    first = new_state()
    train(first, SETTINGS, n_batches=4)
    save_checkpoint(first, tmp_path, keep_checkpoints=1)
    second = new_state()
    scramble_generators()
    monkeypatch.setattr("sightline.training.state.RandomStates.restore", lambda states: None)
    resume(second, tmp_path)
    assert train(second, SETTINGS, n_batches=5) != losses[4:]


def test_several_resumes_in_a_row_equal_the_uninterrupted_run(tmp_path):
    whole = new_state("transformer")
    losses = train(whole, SETTINGS, n_batches=8)
    found = []
    for n in range(8):
        state = new_state("transformer", seed=n)
        resume(state, tmp_path)
        found += train(state, SETTINGS, n_batches=1)
        save_checkpoint(state, tmp_path, keep_checkpoints=2)
    assert found == losses
    assert fingerprint(state) == fingerprint(whole)
