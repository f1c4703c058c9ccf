"""Read what 0.1.0 wrote (format 1) as if it had been written today.

Each function takes the entries of one kind of file and returns them in today's words. It trusts nothing: what is not
of the expected shape is handed on as it is, for the reader behind it to refuse.
"""

from collections.abc import Mapping
from typing import Any

from sightline.renames import SETTINGS, VALUES, WEIGHTS

CONTROL = {"best_merit": "best_selection_key", "best_tie": "best_tie_break", "stale": "validations_without_improvement"}
"""What the training loop kept among its metrics."""
TENSOR_FILES = {"average": "ema"}
"""Kinds of tensors in a checkpoint whose file has another name now."""


def migrate_settings(section: str, values: object) -> Any:
    """Return the settings of a section by their new names and values."""
    if not isinstance(values, dict):
        return values
    names = SETTINGS.get(section, {})
    return {names.get(name, name): migrate_value(f"{section}.{name}", value) for name, value in values.items()}


def migrate_value(setting: str, value: object) -> object:
    """Return the value of a setting, or each item of a list, by its new name."""
    if isinstance(value, list):
        return [migrate_value(setting, item) for item in value]
    changed = VALUES.get(setting, {})
    return changed.get(value, value) if isinstance(value, str | bool) else value


def migrate_config(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.json of a model folder."""
    found = {**entries, "model": migrate_settings("model", entries.get("model"))}
    if "purpose" in found:
        found["task_config"] = migrate_settings("data", found.pop("purpose"))
    return found


def migrate_generation(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return generation.json of a model folder."""
    found: dict[str, Any] = migrate_settings("decoding", entries)
    return found


def migrate_run_record(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return run.json: the recipe, what was really done, and how it ended."""
    found = dict(entries)
    for part in ("recipe", "resolved"):
        if isinstance(found.get(part), dict):
            found[part] = {section: migrate_settings(section, values) for section, values in found[part].items()}
    if isinstance(outcome := found.get("outcome"), dict) and "ending" in outcome:
        found["outcome"] = {"stop_reason" if name == "ending" else name: value for name, value in outcome.items()}
    return found


def migrate_state(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return state.json of a checkpoint."""
    metrics = entries.get("metrics")
    if not isinstance(metrics, dict):
        return dict(entries)
    return {**entries, "metrics": {CONTROL.get(name, name): value for name, value in metrics.items()}}


def migrate_weight(name: str) -> str:
    """Return the name of a weight, or of what an optimizer keeps of it."""
    for old, new in WEIGHTS.items():
        name = f".{name}".replace(f".{old}.", f".{new}.").removeprefix(".")
    return name
