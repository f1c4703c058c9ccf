"""Overrides of decoding settings and what they imply."""

import pytest

from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.pipelines.overrides import override_settings

GREEDY, BEAM, SAMPLED = (
    DecodingSettings(),
    DecodingSettings(beam_size=4),
    DecodingSettings(do_sample=True, temperature=0.7),
)


@pytest.mark.parametrize(
    ("base", "given", "expected"),
    [
        (GREEDY, {}, {"do_sample": False, "beam_size": 1}),
        (GREEDY, {"temperature": 0.5}, {"do_sample": True, "temperature": 0.5}),
        (BEAM, {"seed": 1}, {"do_sample": True, "beam_size": 1, "seed": 1}),
        (BEAM, {"seed": None}, {"do_sample": False, "beam_size": 4}),
        (BEAM, {"top_k": 5, "n_best": 9}, {"do_sample": True, "n_best": 9}),
        (GREEDY, {"temperature": 0.5, "do_sample": False}, {"do_sample": False}),
        (SAMPLED, {"beam_size": 3}, {"do_sample": False, "beam_size": 3}),
        (SAMPLED, {"beam_size": 1}, {"do_sample": True, "temperature": 0.7}),
        (SAMPLED, {"n_best": 5}, {"do_sample": True, "n_best": 5, "beam_size": 1}),
        (GREEDY, {"n_best": 5}, {"beam_size": 5, "n_best": 5}),
        (BEAM, {"n_best": 2}, {"beam_size": 4, "n_best": 2}),
        (GREEDY, {"stop": "x"}, {"stop": ("x",)}),
        (GREEDY, {"stop": ["x", "y"], "length_penalty": 1}, {"stop": ("x", "y"), "length_penalty": 1.0}),
    ],
    ids=str,
)
def test_overrides_imply_other_settings(base, given, expected):
    found = override_settings(base, given)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"beam_size": 4, "temperature": 0.5}, "do_sample draws one token at a time: it needs beam_size = 1, not 4"),
        ({"beam_size": 2, "n_best": 3}, r"n_best \(3\) is more than beam_size \(2\)"),
        ({"temprature": 1.0}, r"unknown setting 'temprature' \(did you mean 'temperature'\?\)"),
        ({"beam_size": "4"}, "beam_size: '4' is not a whole number"),
        ({"do_sample": "yes"}, "'yes' is not true or false"),
    ],
)
def test_contradictory_overrides_are_refused(given, reason):
    with pytest.raises(SettingsError, match=reason):
        override_settings(GREEDY, given)
