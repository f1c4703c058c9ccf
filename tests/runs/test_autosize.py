"""What is chosen by the size of the dataset, and that explicit settings win."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.runs.autosize import (
    SIZES,
    DatasetSize,
    build_model_config,
    choose_batch_tokens,
    choose_size,
    choose_vocab_size,
    resolve_training_settings,
)
from sightline.runs.recipe import apply_overrides, read_recipe

GENERAL = ("translation", "chat", "language-model", "masked-language-model", "classification")


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_more_text_never_gets_a_smaller_vocabulary(a, b):
    low, high = sorted((a, b))
    assert 400 <= choose_vocab_size(low) <= choose_vocab_size(high) <= 16_000


def test_more_data_gets_a_larger_model():
    recipe = read_recipe("translation")
    widths = [choose_size(recipe, DatasetSize(1, tokens, 1)).d_model for tokens in (10**3, 10**7, 5 * 10**7, 10**9)]
    assert widths == sorted(widths) == [size.d_model for size in SIZES.values()]


@pytest.mark.parametrize("name", GENERAL)
@given(tokens=st.integers(1, 10**9), longest=st.integers(1, 500), n_batches=st.integers(1, 10**6))
def test_settings_are_complete_for_any_dataset_size(name, tokens, longest, n_batches):
    recipe, dataset_size = read_recipe(name), DatasetSize(max(1, tokens // 10), tokens, longest)
    config = build_model_config(recipe, dataset_size, vocab_size=1000)
    settings = resolve_training_settings(recipe, dataset_size, config, n_batches=n_batches)
    assert settings.max_steps is not None
    assert settings.warmup_steps < settings.max_steps
    assert settings.batch_tokens >= longest
    assert settings.validate_every <= settings.max_steps


def test_explicit_settings_win():
    recipe = apply_overrides(
        read_recipe("translation"),
        ["training.max_steps=77", "training.learning_rate=0.5", "training.batch_tokens=99", "model.d_model=64"],
    )
    dataset_size = DatasetSize(100, 1000, 20)
    config = build_model_config(recipe, dataset_size, vocab_size=1000)
    settings = resolve_training_settings(recipe, dataset_size, config, n_batches=10)
    assert (settings.max_steps, settings.learning_rate, settings.batch_tokens) == (77, 0.5, 99)
    assert (config.d_model, choose_batch_tokens(recipe, dataset_size, config)) == (64, 99)


def test_fine_tuning_has_a_lower_learning_rate():
    rates = []
    for init in ([], ["model.init_from=somewhere"]):
        recipe, dataset_size = apply_overrides(read_recipe("classification"), init), DatasetSize(100, 1000, 20)
        config = build_model_config(recipe, dataset_size, vocab_size=1000)
        rates.append(resolve_training_settings(recipe, dataset_size, config, n_batches=10).learning_rate)
    assert rates == [0.003, 0.0015]


@pytest.mark.parametrize(
    ("epochs", "gradient_accumulation", "steps"), [(1, 1, 23), (1, 12, 2), (2.5, 1, 58), (3, 4, 18)]
)
def test_epochs_become_updates(epochs, gradient_accumulation, steps):
    recipe = apply_overrides(
        read_recipe("translation"),
        [f"training.max_epochs={epochs}", f"training.gradient_accumulation={gradient_accumulation}"],
    )
    dataset_size = DatasetSize(100, 1000, 20)
    config = build_model_config(recipe, dataset_size, vocab_size=1000)
    assert resolve_training_settings(recipe, dataset_size, config, n_batches=23).max_steps == steps
