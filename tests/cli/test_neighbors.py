"""`sightline neighbors`: whole words, nearest first."""

import json

import pytest

from sightline.bundle import Bundle, save
from sightline.bundle import load as load_bundle
from sightline.tasks import load


@pytest.fixture
def model(folder):
    return folder("generator")


def test_neighbors_are_words_of_the_list(sightline, model):
    rows = [line.split("\t") for line in sightline("neighbors", model, "tiny", "unheard-of", "--n", 3).lines]
    expected = [
        [word, near.word, f"{near.similarity:.4f}"]
        for word in ("tiny", "unheard-of")
        for near in load(model).neighbors(word, n=3)
    ]
    assert rows == expected
    assert "tiny" not in [row[1] for row in rows[:3]]


def test_json_has_an_object_for_each_word(sightline, model):
    first, blank, _ = map(json.loads, sightline("neighbors", model, "--json", stdin=" tiny\n\ntell\n").lines)
    assert first["word"] == "tiny"
    assert [near["word"] for near in first["neighbors"]] == [near.word for near in load(model).neighbors("tiny")]
    assert blank["neighbors"] == []


def test_model_without_a_word_list_is_refused(sightline, model, tmp_path):
    bundle = load_bundle(model)
    save(Bundle(bundle.model, bundle.tokenizer), tmp_path / "bare")
    ran = sightline("neighbors", tmp_path / "bare", "tiny")
    assert (ran.code, ran.out) == (2, "")
    assert "no list of words (words.txt)" in ran.err
