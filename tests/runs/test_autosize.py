"""What is chosen by the size of the dataset, and that explicit settings win."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.runs.autosize import (
    SIZES,
    DatasetSize,
    adapt_to_small_data,
    build_model_config,
    choose_batch_tokens,
    choose_size,
    choose_vocab_size,
    resolve_training_settings,
)
from sightline.runs.recipe import apply_overrides, read_recipe
from sightline.runs.show_config import config_lines

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


def small(*overrides, n_bytes=100_000):
    """The settings chosen for so much labeled text."""
    recipe = apply_overrides(read_recipe("classification"), ["data.train=labeled.tsv", *overrides])
    return adapt_to_small_data(recipe, recipe.data, n_bytes=n_bytes)


def test_few_labeled_texts_get_a_small_model_that_reads_whole_words():
    recipe = small()
    assert {name: recipe.model_fields[name] for name in ("n_layers", "d_model", "pooling")} == {
        "n_layers": 1,
        "d_model": 64,
        "pooling": "mean",
    }
    assert (recipe.tokenizer.min_frequency, recipe.tokenizer.add_prefix_space) == (1, True)
    assert "model.n_layers" in recipe.adapted
    assert "n_layers" not in recipe.to_mapping()["model"]  # what was given stays as it is


def test_what_the_user_sets_is_kept_on_small_data():
    recipe = small("model.n_layers=3", "training.max_steps=50")
    assert (recipe.model_fields["n_layers"], recipe.model_fields["d_model"]) == (3, 64)
    assert "max_epochs" not in recipe.sections["training"]
    assert recipe.to_mapping()["model"]["n_layers"] == 3


def test_who_sets_the_dropout_on_small_data_decides_on_all_of_it():
    assert "model.token_dropout" in small().adapted
    assert "model.token_dropout" not in small("model.dropout=0").adapted


@pytest.mark.parametrize(
    "overrides", [["model.init_from=RUN"], ["model.preset=bert-mini"], ["model.size=small"], ["data.label_level=token"]]
)
def test_small_data_change_nothing_where_the_model_is_chosen_or_words_are_labeled(overrides):
    assert small(*overrides).adapted == {}


def test_tokenizer_of_another_model_is_kept_on_small_data():
    assert not [name for name in small("tokenizer.path=RUN").adapted if name.startswith("tokenizer.")]


def test_more_labeled_text_is_read_fewer_times_and_much_gets_the_usual_model():
    epochs = [small(n_bytes=n).sections["training"]["max_epochs"] for n in (1, 30_000, 100_000, 300_000, 2_000_000)]
    assert epochs == sorted(epochs, reverse=True) == [30, 30, 11, 5, 5]
    assert small(n_bytes=2_000_001).adapted == {}


def test_what_may_be_chosen_for_small_data_is_shown_as_automatic():
    lines = list(config_lines(read_recipe("classification")))
    [pooling] = [line for line in lines if line.startswith(("# pooling", "pooling"))]
    assert pooling.startswith("# pooling")
    assert "(auto: by dataset size)" in pooling
    token = apply_overrides(read_recipe("classification"), ["data.label_level=token"])
    assert 'pooling = "first"' in "\n".join(config_lines(token))


@pytest.mark.parametrize("name", [name for name in GENERAL if name != "classification"])
def test_other_tasks_have_the_usual_model_on_small_data(name):
    recipe = apply_overrides(read_recipe(name), ["data.train=file.tsv"])
    assert adapt_to_small_data(recipe, recipe.data, n_bytes=1000) == recipe
