"""Settings from plain mappings and back, and everything they refuse."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.config import Checks, convert, from_mapping, one_of, to_mapping, unknown_name
from sightline.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Oven:
    """A settings class of every accepted type."""

    temperature: int
    speed: float = 1.0
    fan: bool = False
    name: str = "oven"
    mode: Literal["bake", "grill"] = "bake"
    minutes: int | None = None
    racks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checks = Checks()
        checks.between(0, 300, temperature=self.temperature)
        checks.that(self.mode != "grill" or self.fan, "grilling needs the fan")
        checks.done()


OVENS = st.builds(
    Oven,
    temperature=st.integers(0, 300),
    speed=st.floats(allow_nan=False, allow_infinity=False),
    fan=st.just(True),
    name=st.text(),
    mode=st.sampled_from(["bake", "grill"]),
    minutes=st.none() | st.integers(),
    racks=st.lists(st.integers()).map(tuple),
)


@given(OVENS)
def test_settings_survive_being_written_and_read(oven):
    """The settings saved with a result restore those that produced it."""
    assert from_mapping(Oven, to_mapping(oven)) == oven


def test_settings_left_out_are_the_defaults():
    """A field is the only definition of its default."""
    assert from_mapping(Oven, {"temperature": 180}) == Oven(temperature=180)


def test_list_becomes_a_tuple():
    """JSON and TOML have lists; settings cannot change."""
    assert from_mapping(Oven, {"temperature": 180, "racks": [1, 3]}).racks == (1, 3)


def test_whole_number_serves_as_a_number():
    """1 is accepted for 1.0."""
    speed = from_mapping(Oven, {"temperature": 180, "speed": 2}).speed
    assert (speed, type(speed)) == (2.0, float)


def test_unknown_setting_suggests_the_closest():
    """A typo is answered with the intended name."""
    with pytest.raises(SettingsError, match=r"settings: unknown setting 'temprature' \(did you mean 'temperature'\?\)"):
        from_mapping(Oven, {"temperature": 180, "temprature": 200})


def test_unknown_setting_unlike_any_other_suggests_none():
    """A wrong guess is worse than none."""
    with pytest.raises(SettingsError, match=r"unknown setting 'zzz'$"):
        from_mapping(Oven, {"temperature": 180, "zzz": 1})


def test_missing_setting_is_named():
    """A setting without a default is required."""
    with pytest.raises(SettingsError, match="temperature is missing"):
        from_mapping(Oven, {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", "180", r"temperature: '180' is not a whole number"),
        ("temperature", 180.0, r"temperature: 180.0 is not a whole number"),
        ("temperature", True, r"temperature: True is not a whole number"),
        ("temperature", None, r"temperature: None is not a whole number"),
        ("speed", "fast", r"speed: 'fast' is not a number"),
        ("speed", True, r"speed: True is not a number"),
        ("speed", float("nan"), r"speed: nan is not a finite number"),
        ("speed", float("inf"), r"speed: inf is not a finite number"),
        ("speed", 1 << 60, r"speed: 1152921504606846976 is not a number of ordinary size"),
        ("fan", 1, r"fan: 1 is not true or false"),
        ("fan", "true", r"fan: 'true' is not true or false"),
        ("name", 3, r"name: 3 is not text"),
        ("mode", "gril", r"mode: 'gril' is not one of bake, grill \(did you mean grill\?\)"),
        ("mode", ["bake"], r"mode: \['bake'\] is not one of bake, grill"),
        ("minutes", "5", r"minutes: '5' is not a whole number"),
        ("racks", 3, r"racks: 3 is not a list"),
        ("racks", "12", r"racks: '12' is not a list"),
        ("racks", [1, "2"], r"racks: '2' is not a whole number"),
    ],
)
def test_wrong_type_is_refused_with_the_expected_one(name, value, message):
    """Likely mistakes are not converted."""
    with pytest.raises(SettingsError, match=message):
        from_mapping(Oven, {"temperature": 180, name: value})


def test_all_problems_are_listed_at_once():
    """One round of correction, not five."""
    with pytest.raises(SettingsError) as caught:
        from_mapping(Oven, {"sped": 1, "fan": 1, "mode": "boil"}, where="oven.toml")
    text = str(caught.value)
    assert text.startswith("oven.toml: unknown setting 'sped' (did you mean 'speed'?)")
    assert all(part in text for part in ("temperature is missing", "fan: 1 is not", "mode: 'boil' is not"))


def test_range_error_names_its_source():
    """Range errors, too, name the file they come from."""
    with pytest.raises(SettingsError, match=r"oven.toml: temperature must be between 0 and 300, not 301$"):
        from_mapping(Oven, {"temperature": 301}, where="oven.toml")


def test_all_ranges_are_listed_at_once():
    """Values and rules together."""
    with pytest.raises(SettingsError, match=r"temperature must be between 0 and 300, not -1; grilling needs the fan"):
        Oven(temperature=-1, mode="grill")


def test_long_values_are_shortened_in_the_message():
    """A message fits on a screen."""
    with pytest.raises(SettingsError) as caught:
        convert("x" * 10_000, int)
    assert len(str(caught.value)) < 100


def test_settings_error_has_its_exit_code():
    """Scripts can distinguish invalid input from a failure."""
    with pytest.raises(SettingsError) as caught:
        from_mapping(Oven, {})
    assert caught.value.exit_code == 2


@given(st.floats(-10, 10), st.floats(-10, 0), st.floats(0, 10))
def test_between_accepts_exactly_its_interval(value, low, high):
    """Both ends are included."""
    checks = Checks()
    checks.between(low, high, value=value)
    assert bool(checks.problems) == (not low <= value <= high)


def test_between_refuses_nan():
    """NaN is in no interval."""
    checks = Checks()
    checks.between(0.0, 1.0, value=float("nan"))
    assert checks.problems == ["value must be between 0.0 and 1.0, not nan"]


def test_checks_without_problems_raise_nothing():
    """Valid settings raise nothing."""
    Checks().done()


def test_one_of_suggests_the_closest_if_there_is_one():
    """A list, and a suggestion."""
    assert one_of(["bake", "grill"], "bke") == "one of bake, grill (did you mean bake?)"
    assert one_of(["bake", "grill"]) == "one of bake, grill"


def test_unknown_name_is_shortened():
    """A long name does not flood the terminal."""
    assert len(unknown_name("x" * 1000, ["bake"], what="setting")) < 100
