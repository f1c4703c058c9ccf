"""What a model was made for is kept with it, and fits it."""

import json

import pytest

from sightline.bundle import Bundle, Purpose, load, save
from sightline.errors import ModelFileError, SettingsError
from sightline.text import SEQUENCE_TOKENS, tag_token, train_bpe

from .tiny import TOKENIZER, tiny_model

LANGUAGES = ("en", "de", "zh-Hant", "pt_BR")
TAGGED = train_bpe(["tiny models"] * 3, vocab_size=270, special_tokens=(*SEQUENCE_TOKENS, *map(tag_token, LANGUAGES)))
HEADS = {"heads": ["sequence_classes"], "n_classes": 3}
CASES = [
    (Purpose("translation"), "transformer", TOKENIZER, {}),
    (Purpose("translation", languages=LANGUAGES), "transformer", TAGGED, {}),
    (Purpose("chat", history=5), "transformer", TOKENIZER, {}),
    (Purpose("language-model"), "gpt", TOKENIZER, {}),
    (Purpose("masked-language-model"), "bert", TOKENIZER, {}),
    (Purpose("classification", labels=("a", "b\tc", "d")), "bert", TOKENIZER, HEADS),
    (Purpose("classification", per_word=True), "bert", TOKENIZER, {"heads": ["token_classes"]}),
]


@pytest.mark.parametrize(("purpose", "architecture", "tokenizer", "settings"), CASES, ids=lambda value: str(value)[:40])
def test_purpose_comes_back(purpose, architecture, tokenizer, settings, tmp_path):
    model = tiny_model(architecture, vocab_size=tokenizer.vocab_size, **settings)
    save(Bundle(model, tokenizer, purpose=purpose), tmp_path / "model")
    assert load(tmp_path / "model").purpose == purpose


def test_folder_of_an_earlier_version_does_not_say(folder):
    """Those had none of the new entries and files."""
    config = json.loads((folder / "config.json").read_text())
    assert not {"purpose", "target_special_tokens"} & config.keys()
    loaded = load(folder)
    assert (loaded.purpose, loaded.target_tokenizer, loaded.words) == (None, None, ())


@pytest.mark.parametrize(
    ("purpose", "architecture", "settings", "reason"),
    [
        (Purpose("translation"), "gpt", {}, "takes the architecture transformer, not gpt"),
        (Purpose("masked-language-model"), "bert", HEADS, "has no head masked_words"),
        (Purpose("classification", per_word=True), "bert", HEADS, "has no head token_classes"),
        (Purpose("classification", labels=("a", "b")), "bert", HEADS, "names 2 labels, but the model tells 3 classes"),
        (Purpose("translation", languages=("de",)), "transformer", {}, "has no special token '<2de>'"),
    ],
)
def test_purpose_that_does_not_fit_is_neither_saved_nor_loaded(purpose, architecture, settings, reason, tmp_path):
    model = tiny_model(architecture, **settings)
    with pytest.raises(ModelFileError, match=f"config.json: is not written: it .*{reason}"):
        save(Bundle(model, TOKENIZER, purpose=purpose), tmp_path / "model")
    save(Bundle(model, TOKENIZER), tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["purpose"] = {"task": purpose.task, "languages": purpose.languages, "labels": purpose.labels}
    config["purpose"]["per_word"] = purpose.per_word
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=reason):
        load(tmp_path / "model")


def test_purpose_names_all_its_problems():
    with pytest.raises(SettingsError, match=r"languages belong to .*; languages holds a name twice; history must be"):
        Purpose("chat", languages=("de", "de"), history=0)


def test_more_labels_than_a_config_holds_are_not_saved(tmp_path):
    labels = tuple(f"{number:0>200}" for number in range(9_000))
    model = tiny_model("bert", heads=["sequence_classes"], n_classes=9_000)
    with pytest.raises(ModelFileError, match=r"config\.json: is not written: its .* bytes are more than"):
        save(Bundle(model, TOKENIZER, purpose=Purpose("classification", labels=labels)), tmp_path / "model")
    assert not (tmp_path / "model").exists()
