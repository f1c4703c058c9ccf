"""training.json: what training leaves behind for programs."""

import json
from dataclasses import replace

import pytest

from sightline.bundle import load, save
from sightline.bundle.calibration import Bin, Calibration
from sightline.bundle.input_statistics import InputStatistics
from sightline.bundle.language_statistics import LanguageStatistics
from sightline.bundle.training_facts import MAX_TEXT_LENGTH, InputExample, TrainingFacts
from sightline.decoding.settings import DecodingSettings
from sightline.errors import ModelFileError

FACTS = TrainingFacts(
    files=("pairs.tsv",),
    n_examples=20,
    n_validation=3,
    scores={"bleu": 12.5, "chrf": 40.0},
    step=6,
    calibration=Calibration("close", DecodingSettings(beam_size=4), (Bin(-2.5, 40, 3), Bin(-0.5, 60, 50))),
    multi_sentence_share=0.25,
    max_source_tokens=60,
    examples=(InputExample("a cat", to="de", reference="eine Katze"), InputExample("one", second="two")),
    inputs=InputStatistics("AQ==", ("LATIN",), 0.25, 0.2),
    languages=LanguageStatistics({"de": "AQI=", "en": "AgE="}),
)


def test_facts_come_back(bundle, tmp_path):
    save(replace(bundle, training=FACTS), tmp_path / "model")
    assert load(tmp_path / "model").training == FACTS


def test_model_of_unknown_training_has_no_file(bundle, tmp_path):
    save(replace(bundle, training=TrainingFacts()), tmp_path / "model")
    assert not (tmp_path / "model/training.json").exists()
    assert load(tmp_path / "model").training == TrainingFacts()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scores": {"bleu": "high"}}, "'high' is not a number"),
        ({"scores": [1]}, "is not an object"),
        ({"files": "pairs.tsv"}, "is not a list"),
        ({"n_examples": -1}, "n_examples must be between 0"),
        ({"step": -1}, "step must be between 0"),
        ({"calibration": {"criterion": "close", "decoding": {}, "bins": []}}, "a calibration has 1 to 20 bins"),
        ({"calibration": {"criterion": "good", "decoding": {}, "bins": []}}, "'good' is not one of exact, close"),
        ({"multi_sentence_share": 1.5}, "multi_sentence_share must be between 0"),
        ({"max_source_tokens": 0}, "max_source_tokens must be between 1"),
        ({"examples": [{"reference": "a"}]}, "entry"),
        ({"examples": [{"text": "a" * (MAX_TEXT_LENGTH + 1)}]}, "a text has 2,001 characters"),
        ({"inputs": {"seen_tokens": "?"}}, "seen_tokens is not base64"),
        ({"languages": {"tokens": {}}}, "there must be between 1 and 100 languages, not 0"),
        ({"languages": {"tokens": {"de": "?"}}}, "the table of 'de' is not base64"),
        ({"languages": {"tokens": {"de": "AQI=", "en": "AQ=="}}}, "differ in length"),
        ({"score": {}}, "did you mean 'scores'"),
        ({"files": ["a" * (MAX_TEXT_LENGTH + 1)]}, "a text has 2,001 characters"),
    ],
)
def test_damaged_facts_are_refused_in_one_line(bundle, tmp_path, change, reason):
    save(replace(bundle, training=FACTS), tmp_path / "model")
    path = tmp_path / "model/training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelFileError, match=reason):
        load(tmp_path / "model")
