"""Training settings survive JSON, and impossible ones are refused by name."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.config import from_mapping, to_mapping
from sightline.errors import SettingsError
from sightline.training.settings import TrainingSettings

valid = st.fixed_dictionaries(
    {
        "optimizer": st.sampled_from(["adamw", "muon"]),
        "schedule": st.sampled_from(["cosine", "linear"]),
        "learning_rate": st.floats(1e-12, 10),
        "min_lr_ratio": st.floats(0, 1),
        "warmup_steps": st.integers(0, 99),
        "max_steps": st.integers(100, 1000),
        "betas": st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
        "weight_decay": st.floats(0, 10),
        "label_smoothing": st.floats(0, 0.99),
        "batch_tokens": st.integers(1, 10_000),
        "gradient_accumulation": st.integers(1, 100),
        "ema_decay": st.floats(0, 0.9999),
        "max_epochs": st.none() | st.floats(0.1, 100),
        "patience": st.none() | st.integers(1, 10),
        "seed": st.integers(0, 2**63 - 1),
        "threads": st.none() | st.integers(1, 64),
        "on_non_finite": st.sampled_from(["skip", "stop"]),
    }
)


@given(valid)
def test_settings_survive_json(values):
    settings = TrainingSettings(**values)
    assert from_mapping(TrainingSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


def test_settings_all_have_help():
    for field in dataclasses.fields(TrainingSettings):
        assert field.metadata["help"], field.name


def test_defaults_are_those_of_the_paper():
    settings = TrainingSettings()
    assert (settings.optimizer, settings.schedule, settings.warmup_steps) == ("adam", "noam", 4000)
    assert (settings.betas, settings.adam_eps, settings.label_smoothing) == ((0.9, 0.98), 1e-9, 0.1)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers from 0 to below 1, not \(0.9, 1.0\)"),
        ({"adam_eps": 0.0}, "adam_eps must be between 1e-20 and 1, not 0.0"),
        ({"momentum": 1.0}, "momentum must be between 0 and 0.9999, not 1.0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be between 0 and 0.99, not 1.0"),
        ({"ema_decay": 1.0}, "ema_decay must be 0 or more, below 1, not 1.0"),
        ({"batch_tokens": 0}, "batch_tokens must be between 1 and"),
        ({"gradient_accumulation": 0}, "gradient_accumulation must be between 1 and 100,000, not 0"),
        ({"grad_clip": -1.0}, "grad_clip must be between 0 and"),
        ({"max_steps": 0}, "max_steps must be above 0 and at most 1,000,000,000, not 0"),
        ({"max_minutes": -1.0}, "max_minutes must be above 0"),
        ({"log_every": 0}, "log_every must be between 1 and"),
        ({"patience": 0}, "patience must be 1 or more, not 0"),
        ({"keep_checkpoints": 0}, "keep_checkpoints must be between 1 and 10,000, not 0"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"threads": 0}, "threads must be between 1 and 1,024, not 0"),
        ({"learning_rate": 0.1}, "leave learning_rate out, or use schedule inverse_square_root"),
        ({"warmup_steps": 0}, "schedule noam needs warmup_steps of 1 or more, not 0"),
        ({"schedule": "constant"}, "schedule constant needs a learning_rate"),
        ({"schedule": "constant", "learning_rate": 0.0}, "learning_rate must be between 1e-12 and 10, not 0.0"),
        (
            {"schedule": "cosine", "learning_rate": 0.1},
            "schedule cosine needs to know the length of the run: set max_steps",
        ),
        (
            {"schedule": "linear", "learning_rate": 0.1, "max_steps": 10, "warmup_steps": 10},
            r"warmup_steps \(10\) must be fewer than max_steps \(10\)",
        ),
        (
            {"min_lr_ratio": 0.5},
            "min_lr_ratio applies to cosine and linear only, not to schedule noam",
        ),
        ({"weight_decay": 0.1}, "adam does not support weight_decay: use optimizer adamw"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, sentence):
    with pytest.raises(SettingsError, match=sentence):
        TrainingSettings(**values)


def test_settings_with_three_betas_are_refused():
    with pytest.raises(SettingsError, match="betas must be two numbers"):
        TrainingSettings(betas=(0.9, 0.98, 0.99))


def test_settings_name_the_optimizers_there_are():
    with pytest.raises(SettingsError, match="'adamm' is not one of adam, adamw, muon"):
        from_mapping(TrainingSettings, {"optimizer": "adamm"})


def test_settings_name_all_problems_at_once():
    with pytest.raises(SettingsError, match=r"adam_eps.*gradient_accumulation.*seed"):
        TrainingSettings(adam_eps=2.0, gradient_accumulation=0, seed=-1)
