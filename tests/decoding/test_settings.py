"""Decoding settings survive JSON, and impossible ones are refused by name."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.config import from_mapping, to_mapping
from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError

# Bad and forced words are drawn from different ranges, so that they never contradict each other.
valid = st.fixed_dictionaries(
    {
        "beam_size": st.just(10),
        "n_best": st.integers(1, 10),
        "length_penalty": st.floats(0, 10),
        "coverage_penalty": st.floats(0, 10),
        "min_new_tokens": st.integers(0, 10),
        "max_new_tokens": st.integers(10, 1_000),
        "temperature": st.floats(0.01, 100),
        "top_k": st.integers(0, 100),
        "top_p": st.floats(0.01, 1),
        "min_p": st.floats(0, 1),
        "seed": st.none() | st.integers(0, 2**63 - 1),
        "repetition_penalty": st.floats(0.1, 10),
        "no_repeat_ngram_size": st.integers(0, 5),
        "include_prompt": st.booleans(),
        "bad_words": st.lists(st.lists(st.integers(0, 9), min_size=1).map(tuple)).map(tuple),
        "forced_words": st.lists(st.lists(st.integers(10, 19), min_size=1).map(tuple)).map(tuple),
    }
)


@given(valid)
def test_settings_round_trip_through_json(values):
    settings = DecodingSettings(**values)
    assert from_mapping(DecodingSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


def test_sampling_settings_round_trip_through_json():
    settings = DecodingSettings(do_sample=True, n_best=3, stop=("\n\n", "→"))
    assert from_mapping(DecodingSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


def test_settings_all_have_help():
    for field in dataclasses.fields(DecodingSettings):
        assert field.metadata["help"], field.name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam_size": 0}, "beam_size must be between 1 and 1,000, not 0"),
        ({"length_penalty": -0.5}, "length_penalty must be between 0 and 10, not -0.5"),
        ({"coverage_penalty": float("nan")}, "coverage_penalty: nan is not a finite number"),
        ({"temperature": 0.0}, "temperature must be between 0.01 and 100, not 0.0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
        ({"min_p": 1.5}, "min_p must be between 0 and 1, not 1.5"),
        ({"top_k": -1}, "top_k must be between 0 and 1,000,000, not -1"),
        ({"max_new_tokens": 0}, "max_new_tokens must be between 1 and 1,000,000, not 0"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be between 0.1 and 10, not 0.0"),
        ({"n_best": 3, "beam_size": 2}, r"n_best \(3\) is more than beam_size \(2\)"),
        ({"do_sample": True, "beam_size": 4}, "do_sample draws one token at a time: it needs beam_size = 1, not 4"),
        ({"do_sample": True, "coverage_penalty": 0.2}, "coverage_penalty ranks the results of a beam, not samples"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, r"min_new_tokens \(9\) is more than max_new_tokens \(8\)"),
        ({"bad_words": ((),)}, "bad_words holds an empty sequence"),
        ({"forced_words": ((-1,),)}, "forced_words holds a negative id"),
        ({"bad_words": ((2,),), "forced_words": ((1, 2, 3),)}, r"forced_words \(1, 2, 3\) contains bad_words \(2,\)"),
        ({"stop": ("",)}, "stop holds an empty string"),
        ({"stop": ("x",), "forced_words": ((1,),)}, "forced_words and stop exclude each other"),
    ],
)
def test_invalid_settings_are_refused(values, message):
    with pytest.raises(SettingsError, match=message):
        DecodingSettings(**values)


def test_settings_name_all_problems_at_once():
    with pytest.raises(SettingsError, match=r"beam_size must be.*; top_p must be"):
        DecodingSettings(beam_size=0, top_p=2.0)
