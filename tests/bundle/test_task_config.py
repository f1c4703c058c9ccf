"""The task of a model is saved with it, and fits it."""

import json

import pytest

from sightline.bundle import Bundle, TaskConfig, load, save
from sightline.data.tokenizers import SEQUENCE_TOKENS, tag_token, train_bpe
from sightline.errors import ModelFileError, SettingsError

from .tiny import TOKENIZER, tiny_model

LANGUAGES = ("en", "de", "zh-Hant", "pt_BR")
TAGGED = train_bpe(["tiny models"] * 3, vocab_size=270, special_tokens=(*SEQUENCE_TOKENS, *map(tag_token, LANGUAGES)))
HEADS = {"heads": ["sequence_classification"], "n_classes": 3}
CASES = [
    (TaskConfig("translation"), "transformer", TOKENIZER, {}),
    (TaskConfig("translation", languages=LANGUAGES), "transformer", TAGGED, {}),
    (TaskConfig("translation", source_language="en", target_language="pt-BR"), "transformer", TOKENIZER, {}),
    (TaskConfig("chat", context_turns=5), "transformer", TOKENIZER, {}),
    (TaskConfig("language-model"), "gpt", TOKENIZER, {}),
    (TaskConfig("masked-language-model"), "bert", TOKENIZER, {}),
    (TaskConfig("classification", labels=("a", "b\tc", "d")), "bert", TOKENIZER, HEADS),
    (TaskConfig("classification", per_word=True), "bert", TOKENIZER, {"heads": ["token_classification"]}),
]


@pytest.mark.parametrize(
    ("task_config", "architecture", "tokenizer", "settings"), CASES, ids=lambda value: str(value)[:40]
)
def test_task_config_survives_a_round_trip(task_config, architecture, tokenizer, settings, tmp_path):
    model = tiny_model(architecture, vocab_size=tokenizer.vocab_size, **settings)
    save(Bundle(model, tokenizer, task_config=task_config), tmp_path / "model")
    assert load(tmp_path / "model").task_config == task_config


def test_folder_of_an_early_version_has_no_task_config(folder):
    """Those have none of the newer entries and files."""
    config = json.loads((folder / "config.json").read_text())
    assert not {"task_config", "target_special_tokens"} & config.keys()
    loaded = load(folder)
    assert (loaded.task_config, loaded.target_tokenizer, loaded.words) == (None, None, ())


def test_language_without_a_tag_is_neither_saved_nor_loaded(tmp_path):
    model, reason = tiny_model("transformer"), "has no special token '<2de>'"
    with pytest.raises(ModelFileError, match=f"config.json: was not written: it .*{reason}"):
        save(Bundle(model, TOKENIZER, task_config=TaskConfig("translation", languages=("de",))), tmp_path / "model")
    save(Bundle(model, TOKENIZER), tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["task_config"] = {"task": "translation", "languages": ["de"]}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=reason):
        load(tmp_path / "model")


def test_task_config_lists_all_its_problems():
    with pytest.raises(
        SettingsError, match=r"is not a valid name of a task; languages contains a name twice; context_turns must be"
    ):
        TaskConfig("Chat", languages=("de", "de"), context_turns=0)


def test_too_many_labels_for_a_config_are_not_saved(tmp_path):
    labels = tuple(f"{number:0>200}" for number in range(9_000))
    model = tiny_model("bert", heads=["sequence_classification"], n_classes=9_000)
    with pytest.raises(ModelFileError, match=r"config\.json: was not written: its .* bytes exceed"):
        save(Bundle(model, TOKENIZER, task_config=TaskConfig("classification", labels=labels)), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"source_language": "en"}, "source_language and target_language go together"),
        ({"source_language": "en", "target_language": "d e"}, "'d e' is not a valid language name"),
        (
            {"source_language": "en", "target_language": "de", "languages": ("en", "de")},
            "one direction has no list of languages",
        ),
    ],
)
def test_languages_of_one_direction_are_a_pair(entries, reason):
    with pytest.raises(SettingsError, match=reason):
        TaskConfig("translation", **entries)
