"""What a model was made for is kept with it, and fits it."""

import json

import pytest

from sightline.bundle import Bundle, Purpose, load, model_place, save
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
    with pytest.raises(SettingsError, match="languages belong to .*; languages holds a name twice; history must be"):
        Purpose("chat", languages=("de", "de"), history=0)


def test_more_labels_than_a_config_holds_are_not_saved(tmp_path):
    labels = tuple(f"{number:0>200}" for number in range(9_000))
    model = tiny_model("bert", heads=["sequence_classes"], n_classes=9_000)
    with pytest.raises(ModelFileError, match="config.json: is not written: its .* bytes are more than"):
        save(Bundle(model, TOKENIZER, purpose=Purpose("classification", labels=labels)), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_tokenizer_for_targets_comes_back(tmp_path):
    model = tiny_model("transformer", target_vocab_size=TAGGED.vocab_size, tied_output=False)
    save(Bundle(model, TOKENIZER, target_tokenizer=TAGGED), tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.tokenizer.to_json() == TOKENIZER.to_json()
    assert loaded.target_tokenizer.to_json() == TAGGED.to_json()
    assert loaded.target_tokenizer.end_id not in loaded.target_tokenizer.encode("</s>")


def test_tokenizer_for_targets_that_got_lost_is_missed(tmp_path):
    model = tiny_model("transformer", target_vocab_size=TAGGED.vocab_size, tied_output=False)
    save(Bundle(model, TOKENIZER, target_tokenizer=TAGGED), tmp_path / "model")
    (tmp_path / "model/target_tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: is missing, though config\.json names"):
        load(tmp_path / "model")


def test_tokenizer_for_targets_must_fit(tmp_path):
    model = tiny_model("transformer", target_vocab_size=3_000, tied_output=False)
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: .* does not fit the model's target_vocab_size"):
        save(Bundle(model, TOKENIZER, target_tokenizer=TAGGED), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"target_tokenizer\.json: is not written: it has no place here"):
        save(Bundle(tiny_model("transformer"), TOKENIZER, target_tokenizer=TAGGED), tmp_path / "model")


WORDS = ("the", "<", "don't", "می\u200cخواهم", "👩‍👩‍👧", "ﬁ", "-", "漢字", "e\u0301")


def test_words_come_back_in_order(bundle, tmp_path):
    save(Bundle(bundle.model, bundle.tokenizer, words=WORDS), tmp_path / "model")
    assert load(tmp_path / "model").words == WORDS
    assert (tmp_path / "model/words.txt").read_text().split("\n") == [*WORDS, ""]


def test_list_may_begin_like_a_web_page(bundle, tmp_path):
    save(Bundle(bundle.model, bundle.tokenizer, words=("<", "html")), tmp_path / "model")
    assert load(tmp_path / "model").words == ("<", "html")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a b",), "line 1 is not one word"),
        (("a", ""), "line 2 is empty"),
        (("a", "a"), "has a word twice"),
        (("\ud800",), "half of a surrogate pair"),
        (tuple(map(str, range(200_001))), "has 200,001 words, more than 200,000"),
        (tuple(f"{number:0>800}" for number in range(30_000)), "bytes, more than 20,000,000"),
    ],
    ids=["blank", "empty", "twice", "surrogate", "many", "large"],
)
def test_words_that_would_not_load_are_not_saved(bundle, tmp_path, words, reason):
    with pytest.raises(ModelFileError, match=rf"words\.txt: is not written: .*{reason}"):
        save(Bundle(bundle.model, bundle.tokenizer, words=words), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_as_many_words_as_allowed_load(bundle, tmp_path):
    words = tuple(map(str, range(200_000)))
    save(Bundle(bundle.model, bundle.tokenizer, words=words), tmp_path / "model")
    assert load(tmp_path / "model").words == words


def test_folder_of_a_run_is_opened_by_its_model(folder, tmp_path):
    assert load(tmp_path).tokenizer is not None
    assert (model_place(tmp_path), model_place(folder)) == (folder, folder)


def test_folder_of_a_run_whose_save_was_killed_still_loads(folder, tmp_path):
    folder.rename(folder.with_name(f"{folder.name}.tmp-old"))
    assert load(tmp_path).tokenizer is not None


def test_folder_that_is_neither_is_refused_by_its_own_name(tmp_path):
    (tmp_path / "run/model").mkdir(parents=True)
    with pytest.raises(ModelFileError, match=r"run/config\.json: is missing"):
        load(tmp_path / "run")


def test_what_is_wrong_in_a_run_names_the_file_in_its_model(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model/model\.safetensors: is missing"):
        load(tmp_path)
