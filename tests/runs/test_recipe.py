"""Recipes: read, overridden on the command line, checked, and shown in full."""

import dataclasses
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import SettingsError
from sightline.runs.autosize import DatasetSize, auto_settings, build_model_config
from sightline.runs.recipe import SECTIONS, apply_overrides, list_recipes, parse_recipe, read_recipe
from sightline.runs.show_config import config_lines, effective_value, find_owner, help_text

GENERAL = ("translation", "chat", "language-model", "masked-language-model", "classification")
PARTICULAR = ("en-de", "phrases", "multi30k", "shakespeare", "paper-base", "paper-big")


def test_the_promised_recipes_are_built_in():
    assert set(list_recipes()) == {*GENERAL, *PARTICULAR}


@pytest.mark.parametrize("name", [*GENERAL, *PARTICULAR])
def test_every_built_in_recipe_is_valid_and_described(name):
    recipe = read_recipe(name)
    assert recipe.description
    assert all(
        help_text(find_owner(recipe, section, key), key) for section in SECTIONS for key in recipe.field_types(section)
    )


@pytest.mark.parametrize("name", [*GENERAL, *PARTICULAR])
def test_a_recipe_shown_in_full_is_the_recipe(name):
    recipe = read_recipe(name)
    again = parse_recipe("\n".join(config_lines(recipe)), name=name, where="shown")
    assert auto_settings(again) == auto_settings(recipe)
    for section in SECTIONS:
        for key in recipe.field_types(section):
            then, now = (effective_value(one, section, key) for one in (recipe, again))
            assert then == (tuple(now) if isinstance(now, list) and isinstance(then, tuple) else now), (section, key)
    dataset_size = DatasetSize(1000, 50_000, 40)
    assert build_model_config(again, dataset_size, vocab_size=99) == build_model_config(
        recipe, dataset_size, vocab_size=99
    )


def test_only_a_file_is_missing_from_the_general_recipes():
    with pytest.raises(SettingsError, match=r"data\.train is missing.*sightline train translation data\.train=FILE"):
        _ = read_recipe("translation").data


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("data.train=my file=1.tsv", "data", "train", "my file=1.tsv"),
        ("data.columns=1,2", "data", "columns", ("1", "2")),
        ('data.columns=["1", "2"]', "data", "columns", ("1", "2")),
        ("data.header=true", "data", "header", True),
        ("training.max_steps=100", "training", "max_steps", 100),
        ("training.patience=none", "training", "patience", None),
        ("training.betas=0.9,0.99", "training", "betas", (0.9, 0.99)),
        ("training.learning_rate=1e-3", "training", "learning_rate", 1e-3),
        ("training.learning_rate=1", "training", "learning_rate", 1.0),
        ("model.pre_norm=false", "model", "pre_norm", False),
        ("model.size=small", "model", "size", "small"),
        ("tokenizer.vocab_size=500", "tokenizer", "vocab_size", 500),
        ("decoding.stop=.,!", "decoding", "stop", (".", "!")),
    ],
)
def test_overrides_are_parsed_as_the_type_of_the_setting(override, section, key, value):
    found = apply_overrides(read_recipe("translation"), [override]).sections[section][key]
    assert (tuple(found) if isinstance(found, list) else found) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.trian=x", r"unknown setting 'data\.trian' \(did you mean 'data\.train'\?\)"),
        ("dat.train=x", r"unknown section 'dat' \(did you mean 'data'\?\)"),
        ("epochs=3", r"not of the form section\.key=value"),
        ("training.max_steps=ten", r"training\.max_steps: 'ten' is not a whole number"),
        ("training.max_steps=-1", r"max_steps must be above 0"),
        ("training.optimizer=sgd", r"is not one of adam, adamw, muon"),
        ("model.vocab_size=9", r"unknown setting 'model\.vocab_size'"),
        ("model.n_heads=3", r"d_model .* is not a multiple of n_heads 3"),
        ("model.preset=bert-base", r"the preset bert-base is a bert, but translation needs a transformer"),
        ("model.preset=nothing", r"unknown preset 'nothing'"),
    ],
)
def test_errors_are_named(override, message):
    with pytest.raises(SettingsError, match=message):
        apply_overrides(read_recipe("translation"), [override])


def test_all_errors_are_named_at_once():
    with pytest.raises(SettingsError, match=r"data\.trian.*training\.max_steps"):
        apply_overrides(read_recipe("translation"), ["data.trian=x", "training.max_steps=ten"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = 'translating'", r"task is 'translating', not one of .*did you mean translation"),
        ("", "task is 'None'"),
        ("task = 'chat'\n[trainning]", r"unknown entry 'trainning' \(did you mean 'training'"),
        ("task = 'chat'\ndata = 3", r"\[data\] must be a section"),
        ("task = ", "invalid TOML"),
        ("task = 'chat'\n[model]\nn_classes = 3", "unknown setting 'n_classes'"),
        ("task = 'translation'\n[model]\nvocab_size = 3", "vocab_size come from the data"),
        (
            "task = 'chat'\n[training]\nschedule = 'cosine'\nmax_steps = 5\nwarmup_steps = 9",
            "warmup_steps .9. must be fewer",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(text, message):
    with pytest.raises(SettingsError, match=message):
        parse_recipe(text, name="mine", where="mine.toml")


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(SettingsError, match=r"unknown recipe 'translatoin' \(did you mean 'translation'"):
        read_recipe("translatoin")


def test_a_custom_recipe_is_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('task = "chat"\n[data]\ntrain = "d.jsonl"\n', encoding="utf-8")
    recipe = read_recipe(str(path))
    assert (recipe.name, recipe.task, recipe.data.train) == ("mine", "chat", "d.jsonl")
    with pytest.raises(SettingsError, match="the recipe cannot be read"):
        read_recipe(tmp_path / "other.toml")


def test_values_given_from_python_are_checked_too():
    recipe = read_recipe("translation").with_values({"data.train": "x.tsv", "training.max_steps": 5})
    assert recipe.data.train == "x.tsv"
    with pytest.raises(SettingsError, match=r"unknown setting 'training\.max_step'"):
        recipe.with_values({"training.max_step": 5})


@given(st.text(max_size=30))
def test_no_override_is_a_traceback(text):
    with suppress(SettingsError):
        apply_overrides(read_recipe("chat"), [text])


def test_every_setting_of_every_section_is_documented():
    for kind in SECTIONS.values():
        for item in dataclasses.fields(kind):
            assert help_text(kind, item.name), f"{kind.__name__}.{item.name}"


@pytest.mark.parametrize(
    ("task", "given", "reason"),
    [
        ("translation", {"data.source_language": "en"}, "go together: set both"),
        ("translation", {"data.source_language": "en", "data.target_language": "en"}, "are both en"),
        ("translation", {"data.source_language": "e n", "data.target_language": "de"}, "short names such as de"),
        ("phrases", {"data.source_language": "en", "data.target_language": "de"}, "leave them out with languages"),
        (
            "chat",
            {"data.source_language": "en", "data.target_language": "de"},
            "source_language is not for chat",
        ),
    ],
)
def test_languages_of_one_direction_are_checked(task, given, reason):
    with pytest.raises(SettingsError, match=reason):
        read_recipe(task).with_values(given)
