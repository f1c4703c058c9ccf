"""What a run records for the users of its model: examples of the validation set, and what inputs look like."""

import pytest

import sightline
from sightline.bundle.training_facts import InputExample
from sightline.runs.training_facts import MAX_EXAMPLE_LENGTH, MAX_EXAMPLES, choose_examples

from .small import LAYERS, TINY

LONG = InputExample("word " * MAX_EXAMPLE_LENGTH)
MANY = [InputExample(f"{'long ' * (at % 9)}number {at}", to=("de", "fr")[at % 2], reference="r") for at in range(90)]


def test_examples_are_few_short_and_different():
    chosen = choose_examples([*MANY, LONG, InputExample(" "), *MANY])
    assert len(chosen) == len({one.text for one in chosen}) == MAX_EXAMPLES
    assert LONG not in chosen
    assert {one.to for one in chosen} == {"de", "fr"}
    assert len({len(one.text) for one in chosen}) > MAX_EXAMPLES // 2


def test_examples_do_not_depend_on_the_order_of_the_inputs():
    assert choose_examples(MANY) == choose_examples(MANY[::-1])


@pytest.mark.parametrize("inputs", [[], [LONG], [InputExample("")]])
def test_without_a_short_input_there_are_no_examples(inputs):
    assert choose_examples(inputs) == ()


def test_few_inputs_are_all_examples():
    assert sorted(one.text for one in choose_examples(MANY[:3])) == sorted(one.text for one in MANY[:3])


@pytest.mark.parametrize("name", ["phrases", "gpt", "bert", "classes", "talk"])
def test_every_task_records_inputs_that_its_model_takes(trained, name):
    model = sightline.load(trained(name))
    facts = model.bundle.training
    assert 0 < len(facts.examples) <= MAX_EXAMPLES
    assert facts.inputs is not None
    assert facts.inputs.scripts == ("LATIN",)
    for one in facts.examples:
        assert model.parse_input(one.text) is not None
        assert one.to is None or one.to in model.languages
        assert one.reference
        assert model.find_unfamiliar(one.text) is None


def test_a_run_records_what_its_inputs_contained_and_not_its_targets(trained):
    """The phrases are of six languages on both sides; Finnish is none of them, nor is Greek."""
    model = sightline.load(trained("phrases"))
    assert "never occurred" in model.find_unfamiliar("hyvää huomenta kaikille ystäville").note
    assert "Greek" in model.find_unfamiliar("καλημέρα κόσμε").note


WORDS = {"en": "the small dog sees a house", "de": "der kleine Hund sieht ein Haus", "fr": "le petit chien voit maison"}


def train_two_targets(folder, sources):
    """Train a translator into German and French for a moment."""
    rows = []
    for number in range(60):
        for target in ("de", "fr"):
            source = sources[number % len(sources)]
            if source != target:
                texts = [" ".join(WORDS[name].split()[number // 2 % 4 :]) for name in (source, target)]
                rows.append("\t".join([*(f"{text} {number}" for text in texts), target]))
    (folder / "rows.tsv").write_text("\n".join(rows), encoding="utf-8")
    settings = {**TINY, **LAYERS["translation"], "data.train": str(folder / "rows.tsv"), "data.languages": ["de", "fr"]}
    return sightline.train("translation", settings, out=folder / "run").load()


def test_a_model_of_both_directions_tells_its_languages_apart(tmp_path):
    model = train_two_targets(tmp_path, ["de", "fr"])
    assert model.chooses_target
    assert next(iter(model.detect_language("der Hund"))) == "de"
    assert next(iter(model.detect_language("petit chien"))) == "fr"


def test_a_model_whose_sources_are_in_a_third_language_does_not_choose(tmp_path):
    model = train_two_targets(tmp_path, ["en"])
    assert not model.chooses_target
    assert model.detect_language("der Hund") == {}
