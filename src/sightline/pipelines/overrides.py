"""Overrides of decoding settings: the few a caller names, on top of the model's own."""

from collections.abc import Mapping

from sightline.decoding import DecodingSettings
from sightline.settings import from_mapping, to_mapping

SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "seed")
"""Settings that imply sampling."""


def override_settings(settings: DecodingSettings, overrides: Mapping[str, object]) -> DecodingSettings:
    """Return the settings with these overrides, and with what they imply.

    A sampling setting implies `do_sample`; a beam implies no sampling; `n_best` implies a beam at least as wide.
    Overrides are never changed: if they contradict each other, the settings refuse them.
    """
    given = {name: as_tuple(value) if name == "stop" else value for name, value in overrides.items()}
    return from_mapping(
        DecodingSettings, {**to_mapping(settings), **implied_settings(settings, given), **given}, where="decoding"
    )


def implied_settings(settings: DecodingSettings, given: Mapping[str, object]) -> dict[str, object]:
    """Return the other settings that must change with the given ones."""
    beam_size, n_best = given.get("beam_size"), given.get("n_best")
    implied = any(given.get(name) is not None for name in SAMPLING_SETTINGS)
    do_sample = given.get("do_sample", implied or (settings.do_sample and not exceeds(beam_size, 1)))
    if do_sample is True:
        return {"do_sample": True, "beam_size": 1, "coverage_penalty": 0.0}
    wider = {"beam_size": n_best} if exceeds(n_best, settings.beam_size) else {}
    return {"do_sample": False, **wider}


def exceeds(value: object, limit: int) -> bool:
    """Return whether a value, which may be of any type, is an integer above the limit."""
    return isinstance(value, int) and value > limit


def as_tuple(value: object) -> object:
    """Wrap a single stop string in a tuple."""
    return (value,) if isinstance(value, str) else value
