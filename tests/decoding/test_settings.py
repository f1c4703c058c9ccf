import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.settings import from_mapping, to_mapping

# Banned and required ids are drawn from different ranges, so that they never contradict each other.
valid = st.fixed_dictionaries(
    {
        "beam": st.just(10),
        "n_best": st.integers(1, 10),
        "length_penalty": st.floats(0, 10),
        "coverage_penalty": st.floats(0, 10),
        "min_length": st.integers(0, 10),
        "max_length": st.integers(10, 1_000),
        "temperature": st.floats(0.01, 100),
        "top_k": st.integers(0, 100),
        "top_p": st.floats(0.01, 1),
        "min_p": st.floats(0, 1),
        "seed": st.none() | st.integers(0, 2**63 - 1),
        "repetition_penalty": st.floats(0.1, 10),
        "no_repeat_ngram": st.integers(0, 5),
        "context_counts": st.booleans(),
        "banned": st.lists(st.lists(st.integers(0, 9), min_size=1).map(tuple)).map(tuple),
        "required": st.lists(st.lists(st.integers(10, 19), min_size=1).map(tuple)).map(tuple),
    }
)


@given(valid)
def test_settings_survive_being_written_as_json(values):
    settings = DecodingSettings(**values)
    assert from_mapping(DecodingSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


def test_settings_for_sampling_survive_being_written_as_json():
    settings = DecodingSettings(sample=True, n_best=3, stop=("\n\n", "→"))
    assert from_mapping(DecodingSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


def test_settings_all_have_help():
    for field in dataclasses.fields(DecodingSettings):
        assert field.metadata["help"], field.name


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"beam": 0}, "beam must be between 1 and 1,000, not 0"),
        ({"length_penalty": -0.5}, "length_penalty must be between 0 and 10, not -0.5"),
        ({"coverage_penalty": float("nan")}, "coverage_penalty: nan is not a finite number"),
        ({"temperature": 0.0}, "temperature must be between 0.01 and 100, not 0.0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
        ({"min_p": 1.5}, "min_p must be between 0 and 1, not 1.5"),
        ({"top_k": -1}, "top_k must be between 0 and 1,000,000, not -1"),
        ({"max_length": 0}, "max_length must be between 1 and 1,000,000, not 0"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be between 0.1 and 10, not 0.0"),
        ({"n_best": 3, "beam": 2}, r"n_best \(3\) is more than beam \(2\)"),
        ({"sample": True, "beam": 4}, "it needs beam = 1, not 4"),
        ({"sample": True, "coverage_penalty": 0.2}, "coverage_penalty ranks the results of a beam, not samples"),
        ({"min_length": 9, "max_length": 8}, r"min_length \(9\) is more than max_length \(8\)"),
        ({"banned": ((),)}, "banned holds an empty sequence"),
        ({"required": ((-1,),)}, "required holds a negative id"),
        ({"banned": ((2,),), "required": ((1, 2, 3),)}, r"required \(1, 2, 3\) contains banned \(2,\)"),
        ({"stop": ("",)}, "stop holds an empty string"),
        ({"stop": ("x",), "required": ((1,),)}, "required and stop exclude each other"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values, sentence):
    with pytest.raises(SettingsError, match=sentence):
        DecodingSettings(**values)


def test_settings_name_all_problems_at_once():
    with pytest.raises(SettingsError, match=r"beam must be.*; top_p must be"):
        DecodingSettings(beam=0, top_p=2.0)
