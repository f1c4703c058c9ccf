"""The models of the package: their names work wherever a folder does, and they are what their cards say."""

import json
from pathlib import Path

import pytest
import torch

import sightline
from sightline import bundle
from sightline.bundle.builtin import FOLDER, find_builtin_model, list_builtin_models
from sightline.bundle.weights import open_tensor_file
from sightline.cli.main import main
from sightline.errors import ModelFileError

from .tiny import TOKENIZER, tiny_model

MAX_BYTES = 8_000_000


@pytest.fixture(scope="module")
def translator():
    return sightline.load("en-de")


def test_every_built_in_model_is_small_half_precision_and_has_a_card():
    assert list_builtin_models() == ("en-de",)
    for name in list_builtin_models():
        folder = find_builtin_model(name)
        assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES
        with open_tensor_file(folder / "model.safetensors") as file:
            assert {info.dtype for info in file.header.tensors.values()} == {"F16"}
        card = (folder / "README.md").read_text(encoding="utf-8")
        for section in ("## Limits", "## Data", "CC BY 2.0", "tatoeba.org", "## Scores", "Multi30k"):
            assert section in card, (name, section)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Where is the station?", "Bahnhof"),
        ("Hello, how are you?", "Hallo"),
        ("I have a dog.", "Hund"),
        ("Wo ist der Bahnhof?", "station"),
        ("Ich habe einen Hund.", "dog"),
    ],
)
def test_it_translates_either_way_without_being_told_which(translator, text, word):
    assert word in translator.translate(text)


def test_a_text_of_several_sentences_is_translated_sentence_by_sentence(translator):
    found = translator.translate("I have a dog. He is old.\nWhere is the station?")
    first, second = found.split("\n")
    assert ("Hund" in first, "Bahnhof" in second) == (True, True)


def test_both_languages_are_detected(translator):
    assert {"de", "en"} == set(translator.languages)
    for text, language in (("How old is your brother?", "en"), ("Wie alt ist dein Bruder?", "de")):
        [found, share] = next(iter(translator.detect_language(text).items()))
        assert found == language
        assert share > 0.99


def test_the_command_takes_its_name(capsys):
    assert main(["translate", "en-de", "Where is the station?"]) == 0
    assert "Bahnhof" in capsys.readouterr().out
    assert main(["info", "en-de", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["does"] == "translates between German and English"
    assert facts["scores"]["bleu"] > 30
    assert facts["files"]["model.safetensors"] < MAX_BYTES


def test_a_folder_of_ones_own_precedes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("en-de").mkdir()
    assert bundle.find_model_folder(Path("en-de")) == FOLDER / "en-de"  # a folder without a model
    bundle.save(bundle.Bundle(tiny_model(), TOKENIZER), Path("en-de"))
    assert bundle.find_model_folder(Path("en-de")) == Path("en-de")
    assert bundle.find_model_folder(tmp_path / "en-de") == tmp_path / "en-de"


@pytest.mark.parametrize("what", ["run", "file"])
def test_it_does_not_stand_in_for_what_has_its_name(what, tmp_path, monkeypatch):
    """A run that was stopped before its first model is not the built-in model."""
    monkeypatch.chdir(tmp_path)
    if what == "run":
        Path("en-de/checkpoints").mkdir(parents=True)
    else:
        Path("en-de").write_text("hello", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"the model folder is incomplete|is a file, not a model folder"):
        bundle.load("en-de")


def test_without_built_in_models_none_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sightline.bundle.folder.list_builtin_models", tuple)
    with pytest.raises(ModelFileError, match=r"^en-dee: no such model folder$"):
        bundle.load("en-dee")


def test_a_name_that_is_none_is_told_the_built_in_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError, match=r"^en-dee: no such model folder; the built-in models are en-de$"):
        bundle.load("en-dee")
    with pytest.raises(ModelFileError, match=r"en-dee: no such model folder$"):
        bundle.load("runs/en-dee")


def test_training_continues_from_it(tmp_path):
    rows = [f"the cat number {number}\tdie Katze Nummer {number}\tde" for number in range(40)]
    (tmp_path / "rows.tsv").write_text("\n".join(rows), encoding="utf-8")
    settings = {
        "data.train": str(tmp_path / "rows.tsv"),
        "data.languages": ["de", "en"],
        "model.init_from": "en-de",
        "training.max_steps": 1,
        "training.warmup_steps": 0,
    }
    ours = sightline.train("translation", settings, out=tmp_path / "run").load()
    theirs = sightline.load("en-de")
    assert ours.tokenizer.to_json() == theirs.tokenizer.to_json()
    before, after = (dict(one.model.named_parameters()) for one in (theirs, ours))
    assert all(torch.allclose(before[name], after[name], atol=0.05) for name in before)
