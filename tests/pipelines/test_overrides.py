"""Settings as people give them."""

import pytest

from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.pipelines.overrides import overridden

GREEDY, BEAM, DRAWN = DecodingSettings(), DecodingSettings(beam=4), DecodingSettings(sample=True, temperature=0.7)


@pytest.mark.parametrize(
    ("base", "given", "expected"),
    [
        (GREEDY, {}, {"sample": False, "beam": 1}),
        (GREEDY, {"temperature": 0.5}, {"sample": True, "temperature": 0.5}),
        (BEAM, {"seed": 1}, {"sample": True, "beam": 1, "seed": 1}),
        (BEAM, {"seed": None}, {"sample": False, "beam": 4}),
        (BEAM, {"top_k": 5, "n_best": 9}, {"sample": True, "n_best": 9}),
        (GREEDY, {"temperature": 0.5, "sample": False}, {"sample": False}),
        (DRAWN, {"beam": 3}, {"sample": False, "beam": 3}),
        (DRAWN, {"beam": 1}, {"sample": True, "temperature": 0.7}),
        (DRAWN, {"n_best": 5}, {"sample": True, "n_best": 5, "beam": 1}),
        (GREEDY, {"n_best": 5}, {"beam": 5, "n_best": 5}),
        (BEAM, {"n_best": 2}, {"beam": 4, "n_best": 2}),
        (GREEDY, {"stop": "x"}, {"stop": ("x",)}),
        (GREEDY, {"stop": ["x", "y"], "length_penalty": 1}, {"stop": ("x", "y"), "length_penalty": 1.0}),
    ],
    ids=str,
)
def test_what_is_given_has_its_consequences(base, given, expected):
    found = overridden(base, given)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"beam": 4, "temperature": 0.5}, "sample draws one token at a time: it needs beam = 1, not 4"),
        ({"beam": 2, "n_best": 3}, r"n_best \(3\) is more than beam \(2\)"),
        ({"temprature": 1.0}, r"unknown setting 'temprature' \(did you mean 'temperature'\?\)"),
        ({"beam": "4"}, "beam: '4' is not a whole number"),
        ({"sample": "yes"}, "'yes' is not true or false"),
    ],
)
def test_what_excludes_itself_is_said(given, reason):
    with pytest.raises(SettingsError, match=reason):
        overridden(GREEDY, given)
