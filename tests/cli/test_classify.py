"""`sightline classify`: texts, pairs and words."""

import json

import pytest

from sightline.bundle import Bundle, save
from sightline.bundle import load as load_bundle
from sightline.tasks import load

PAIRS = [("tiny models", "tell"), ("no tales", "tiny")]


@pytest.fixture
def model(folder, precisely):
    return folder("classifier")


def rows(found) -> list[str]:
    return [f"{each.label}\t{each.probability:.4f}" for each in found]


def test_each_text_has_its_class(sightline, model):
    texts = ["tiny models", "tell no tales"]
    assert sightline("classify", model, *texts).lines == rows(load(model).classify(texts))


def test_blank_lines_stay_blank(sightline, model):
    [expected] = rows(load(model).classify(["tiny"]))
    assert sightline("classify", model, stdin="tiny\n\ntiny\n").lines == [expected, "", expected]


def test_pairs_are_every_two_arguments_or_lines_with_a_tab(sightline, model):
    expected = rows(load(model).classify(PAIRS))
    assert sightline("classify", model, "--pair", *[text for pair in PAIRS for text in pair]).lines == expected
    assert sightline("classify", model, "--pair", *["\t".join(pair) for pair in PAIRS]).lines == expected
    stdin = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    assert sightline("classify", model, "--pair", stdin=stdin).lines == expected
    assert sightline("classify", model, "--pair", "-", stdin=stdin).lines == expected
    assert expected != rows(load(model).classify([first for first, _ in PAIRS]))


def test_line_that_is_no_pair_is_named(sightline, model):
    ran = sightline("classify", model, "--pair", stdin="a\tb\na b\n")
    reason = "stdin:2: a pair is two texts with a tab between them, not 1"
    assert (ran.code, ran.err) == (2, f"sightline: {reason}\n")
    assert ran.out.count("\n") == 1


def test_odd_number_of_arguments_for_pairs_is_refused(sightline, model):
    reason = "--pair needs an even number of texts, not 3"
    assert sightline("classify", model, "--pair", "a", "b", "c") == (2, "", f"sightline: {reason}\n")


def test_json_has_every_probability(sightline, model):
    first, blank = map(json.loads, sightline("classify", model, "--json", stdin="tiny\n\n").lines)
    [found] = load(model).classify(["tiny"])
    assert (first["text"], first["label"]) == ("tiny", found.label)
    assert first["probabilities"] == pytest.approx(found.probabilities)
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert (blank["line"], blank["label"]) == (2, None)


def test_json_of_a_pair_has_both_texts(sightline, model):
    [line] = sightline("classify", model, "--json", "--pair", "a", "b").lines
    assert json.loads(line)["text"] == ["a", "b"]


def test_words_are_printed_with_their_classes(sightline, folder):
    model = folder("tagger")
    labels = [each.label for each in load(model).tag(["tiny", "models", "tell"])]
    expected = " ".join(f"{word}/{label}" for word, label in zip(["tiny", "models", "tell"], labels, strict=True))
    assert sightline("classify", model, stdin="tiny models  tell\n\n").lines == [expected, ""]
    [line] = sightline("classify", model, "tiny models tell", "--json").lines
    assert [word["word"] + "/" + word["label"] for word in json.loads(line)["words"]] == expected.split()


def test_words_are_no_pairs(sightline, folder):
    ran = sightline("classify", folder("tagger"), "--pair", "a", "b")
    assert (ran.code, ran.out) == (2, "")
    assert "leave --pair out" in ran.err


def test_model_without_a_task_does_what_it_can(sightline, model, tmp_path):
    bundle = load_bundle(model)
    save(Bundle(bundle.model, bundle.tokenizer), tmp_path / "bare")
    [line] = sightline("classify", tmp_path / "bare", "tiny").lines
    assert line.split("\t")[0] in ("0", "1")
