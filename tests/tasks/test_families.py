"""A task may be done by any family with an interface that it allows: chat and translation by a GPT too."""

import shutil

import pytest

from runs.small import overrides, weights_of
from sightline.errors import SettingsError
from sightline.model import GPT
from sightline.pipelines import Chat, Translator
from sightline.runs import train
from sightline.runs.recipe import apply_overrides, read_recipe
from sightline.tasks import TASKS, families_for, load
from sightline.tasks.evaluation import evaluate

ENCODER_DECODER = ("model.n_encoder_layers", "model.n_decoder_layers")


def settings_for(tmp_path, task: str) -> dict[str, object]:
    given = overrides(tmp_path, task, **{"model.family": "gpt", "model.max_length": 64, "training.max_steps": 4})
    return {name: value for name, value in given.items() if name not in ENCODER_DECODER} | {"model.n_layers": 1}


def test_tasks_name_the_families_that_can_do_them():
    found = {name: families_for(task) for name, task in TASKS.items()}
    assert found == {
        "translation": ["transformer", "gpt"],
        "chat": ["transformer", "gpt"],
        "language-model": ["gpt"],
        "masked-language-model": ["bert"],
        "classification": ["bert"],
    }


@pytest.mark.parametrize(("task", "kind"), [("translation", Translator), ("chat", Chat)])
def test_pairs_are_learned_by_a_decoder_alone(task, kind, tmp_path):
    result = train(task, settings_for(tmp_path, task), out=tmp_path / "run")
    model = load(result.folder)
    assert (type(model), type(model.model)) == (kind, GPT)
    assert model.trace("one", max_new_tokens=3).family == "gpt"
    scored = evaluate(model, tsv=tmp_path / "pairs.tsv", limit=2) if task == "translation" else None
    assert scored is None or scored.values["sentences"] == 2


def test_run_of_a_decoder_alone_is_resumed_exactly(tmp_path):
    settings = settings_for(tmp_path, "translation") | {"training.checkpoint_every": 2}
    whole = train("translation", settings, out=tmp_path / "whole").folder
    shutil.copytree(whole, tmp_path / "stopped")
    shutil.rmtree(sorted((tmp_path / "stopped" / "checkpoints").iterdir())[-1])
    train(None, out=tmp_path / "stopped", resume=True)
    assert weights_of(tmp_path / "stopped") == weights_of(whole)


def test_settings_of_the_recipe_that_a_family_lacks_are_left_out():
    recipe = apply_overrides(read_recipe("phrases"), ["model.family=gpt", "model.n_layers=3"])
    assert recipe.model_fields["n_layers"] == 3
    assert not {"n_encoder_layers", "n_decoder_layers"} & set(recipe.model_fields)
    with pytest.raises(SettingsError, match=r"unknown setting 'model\.n_encoder_layers'"):
        apply_overrides(read_recipe("chat"), ["model.family=gpt", "model.n_encoder_layers=3"])


def test_family_is_chosen_before_its_settings_are_read():
    recipe = apply_overrides(read_recipe("chat"), ["model.n_layers=3", "model.family=gpt"])
    assert (recipe.family, recipe.model_fields["n_layers"]) == ("gpt", 3)


def test_decoder_alone_has_one_vocabulary():
    with pytest.raises(SettingsError, match=r"tokenizer\.shared_vocab: a gpt reads source and target with one vocab"):
        apply_overrides(read_recipe("translation"), ["tokenizer.shared_vocab=false", "model.family=gpt"])


def test_family_that_cannot_do_the_task_is_refused():
    with pytest.raises(SettingsError, match=r"model\.family is a bert, but chat needs a transformer or a gpt"):
        apply_overrides(read_recipe("chat"), ["model.family=bert"])


@pytest.mark.parametrize(
    ("recipe", "given", "family"),
    [
        ("multi30k", ["model.family=gpt"], "gpt"),  # the recipe's preset is one of its own family
        ("multi30k", ["model.family=gpt", "model.preset=none"], "gpt"),
        ("chat", ["model.family=none"], "transformer"),
        ("chat", ["model.family=gpt", "model.family=transformer"], "transformer"),
    ],
)
def test_family_is_chosen_whatever_the_recipe_sets(recipe, given, family):
    assert apply_overrides(read_recipe(recipe), given).family == family


def test_preset_that_the_user_sets_must_be_of_the_family():
    with pytest.raises(SettingsError, match=r"the preset transformer-tiny is a transformer, but model\.family is gpt"):
        apply_overrides(read_recipe("chat"), ["model.preset=transformer-tiny", "model.family=gpt"])


def test_length_limit_of_a_decoder_alone_is_shared_by_source_and_target(tmp_path):
    from sightline.runs.prepare import limit_lengths

    recipe = read_recipe("chat").with_values({"data.train": "x.tsv", "data.max_length": 2_000})
    assert limit_lengths(recipe, recipe.data, None).max_length == 2_000
    decoder = recipe.with_values({"model.family": "gpt", "model.max_length": 101})
    assert limit_lengths(decoder, decoder.data, None).max_length == 50
    endless = recipe.with_values({"model.family": "gpt", "model.max_length": None, "model.positions": "rope"})
    assert limit_lengths(endless, endless.data, None).max_length == 2_000
