"""`sightline fill`: words for every mask."""

import json

import pytest

from sightline.tasks import load

TEXT = "tiny [MASK] tell [MASK]"


@pytest.fixture
def model(folder):
    return folder("filler")


def test_every_mask_has_its_words(sightline, model):
    lines = sightline("fill", model, TEXT, "--n", 3).lines
    expected = [
        [str(number), candidate.token, f"{candidate.probability:.4f}", candidate.text]
        for number, filling in enumerate(load(model).fill(TEXT, n=3), 1)
        for candidate in filling.candidates
    ]
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "1", "2", "2", "2"]
    assert [line.split("\t")[2] for line in lines] == [row[2] for row in expected]


def test_json_has_an_object_for_each_text(sightline, model):
    lines = sightline("fill", model, "--json", "--n", 2, stdin=f"{TEXT}\n\na [MASK]\n").lines
    first, blank, last = map(json.loads, lines)
    assert [len(mask) for mask in first["masks"]] == [2, 2]
    assert (blank["line"], blank["masks"]) == (2, [])
    best = load(model).fill("a [MASK]")[0].candidates[0]
    found = last["masks"][0][0]
    assert (found["word"], found["text"]) == (best.token, best.text)
    assert found["probability"] == pytest.approx(best.probability)


def test_text_without_a_mask_is_named(sightline, model):
    ran = sightline("fill", model, stdin=f"{TEXT}\nno mask\n")
    assert ran.code == 2
    assert len(ran.out.splitlines()) == 10
    assert ran.err.startswith("sightline: stdin:2: the text has no mask: put [MASK] where a word is missing")


def test_classifier_fills_nothing(sightline, folder):
    ran = sightline("fill", folder("classifier"), TEXT)
    assert (ran.code, ran.out) == (2, "")
    assert "use sightline classify" in ran.err
