"""Decoding settings as people give them: a few by name, on top of what suits the model."""

from collections.abc import Mapping

from sightline.decoding import DecodingSettings
from sightline.settings import from_mapping, to_mapping

OF_CHANCE = ("temperature", "top_k", "top_p", "min_p", "seed")
"""Whoever gives one of these wants to draw."""


def overridden(settings: DecodingSettings, overrides: Mapping[str, object]) -> DecodingSettings:
    """Return the settings with some of them given anew, and with what follows from those.

    A knob of chance implies `sample`; a beam implies that nothing is drawn; several results imply a beam as wide.
    What is given always stands: if it excludes itself, the settings say so.
    """
    given = {name: as_strings(value) if name == "stop" else value for name, value in overrides.items()}
    return from_mapping(
        DecodingSettings, {**to_mapping(settings), **consequences(settings, given), **given}, where="decoding"
    )


def consequences(settings: DecodingSettings, given: Mapping[str, object]) -> dict[str, object]:
    """Return what must change so that what is given makes sense."""
    beam, n_best = given.get("beam"), given.get("n_best")
    drawn = any(given.get(name) is not None for name in OF_CHANCE)
    sample = given.get("sample", drawn or (settings.sample and not is_more(beam, 1)))
    if sample is True:
        return {"sample": True, "beam": 1, "coverage_penalty": 0.0}
    wider = {"beam": n_best} if is_more(n_best, settings.beam) else {}
    return {"sample": False, **wider}


def is_more(value: object, than: int) -> bool:
    """Say whether what may not even be a number is more than a number."""
    return isinstance(value, int) and value > than


def as_strings(value: object) -> object:
    """Take one stop string for a list of one."""
    return (value,) if isinstance(value, str) else value
