"""What is chosen by the amount of data, and that what was set stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.run.overrides import changed
from sightline.run.recipe import read_recipe
from sightline.run.sizes import SIZES, Amount, batch_tokens, model_config, size_for, training_settings, vocabulary_size

GENERAL = ("translation", "chat", "language-model", "masked-language-model", "classification")


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_more_text_never_gets_a_smaller_vocabulary(a, b):
    low, high = sorted((a, b))
    assert 400 <= vocabulary_size(low) <= vocabulary_size(high) <= 16_000


def test_more_data_gets_a_larger_model():
    recipe = read_recipe("translation")
    widths = [size_for(recipe, Amount(1, tokens, 1)).d_model for tokens in (10**3, 10**7, 5 * 10**7, 10**9)]
    assert widths == sorted(widths) == [size.d_model for size in SIZES.values()]


@pytest.mark.parametrize("name", GENERAL)
@given(tokens=st.integers(1, 10**9), longest=st.integers(1, 500), n_batches=st.integers(1, 10**6))
def test_every_gap_is_filled_for_any_amount(name, tokens, longest, n_batches):
    recipe, amount = read_recipe(name), Amount(max(1, tokens // 10), tokens, longest)
    config = model_config(recipe, amount, vocab_size=1000)
    settings = training_settings(recipe, amount, config, n_batches=n_batches)
    assert settings.max_steps is not None
    assert settings.warmup_steps < settings.max_steps
    assert settings.batch_tokens >= longest
    assert settings.validate_every <= settings.max_steps


def test_what_was_set_stands():
    asked = changed(
        read_recipe("translation"),
        ["training.max_steps=77", "training.learning_rate=0.5", "training.batch_tokens=99", "model.d_model=64"],
    )
    amount = Amount(100, 1000, 20)
    config = model_config(asked, amount, vocab_size=1000)
    settings = training_settings(asked, amount, config, n_batches=10)
    assert (settings.max_steps, settings.learning_rate, settings.batch_tokens) == (77, 0.5, 99)
    assert (config.d_model, batch_tokens(asked, amount, config)) == (64, 99)


def test_what_goes_on_from_a_model_learns_more_slowly():
    rates = []
    for start in ([], ["model.start=somewhere"]):
        recipe, amount = changed(read_recipe("classification"), start), Amount(100, 1000, 20)
        config = model_config(recipe, amount, vocab_size=1000)
        rates.append(training_settings(recipe, amount, config, n_batches=10).learning_rate)
    assert rates == [0.003, 0.0015]


@pytest.mark.parametrize(("epochs", "accumulate", "steps"), [(1, 1, 23), (1, 12, 2), (2.5, 1, 58), (3, 4, 18)])
def test_passes_over_the_data_become_updates(epochs, accumulate, steps):
    recipe = changed(read_recipe("translation"), [f"training.max_epochs={epochs}", f"training.accumulate={accumulate}"])
    amount = Amount(100, 1000, 20)
    config = model_config(recipe, amount, vocab_size=1000)
    assert training_settings(recipe, amount, config, n_batches=23).max_steps == steps
