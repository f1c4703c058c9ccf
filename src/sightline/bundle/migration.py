"""Read what 0.1.0 wrote (format 1), and checkpoints of format 2, as if they had been written today.

Each function takes the entries of one kind of file and returns them in today's words. It trusts nothing: what is not
of the expected shape is handed on as it is, for the reader behind it to refuse.
"""

from collections.abc import Mapping
from typing import Any

from sightline.renames import SETTINGS, VALUES, WEIGHTS

CONTROL = {"best_merit": "best_selection_key", "best_tie": "best_tie_break", "stale": "validations_without_improvement"}
"""What the training loop kept among its metrics, by the names of 0.1.0."""
LOOP = ("tokens", "validated_step", "validations_without_improvement")
SUMS = ("pending_tokens", "window_loss", "window_tokens")
"""What it kept there up to format 2; a number that was not there was 0."""
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
    """Return state.json of a checkpoint, with the state of the loop out of its metrics and the main rank in a list."""
    if not isinstance(entries.get("metrics"), dict):
        return dict(entries)
    metrics = {CONTROL.get(name, name): value for name, value in entries["metrics"].items()}
    metrics.pop("stopping", None)  # every start of the loop set it to 0
    loop, sums = ({name: metrics.pop(name, 0) for name in names} for names in (LOOP, SUMS))
    if isinstance(loop["tokens"], float) and loop["tokens"].is_integer():
        loop["tokens"] = int(loop["tokens"])
    score, loss = metrics.pop("best_selection_key", None), metrics.pop("best_tie_break", None)
    loop["best_selection_key"] = None if score is None else [score, loss]
    ranks = [{"sums": sums, "random": entries.get("random")}]
    return {**entries, "metrics": metrics, "loop": loop, "ranks": ranks}


def migrate_weight(name: str) -> str:
    """Return the name of a weight, or of what an optimizer keeps of it."""
    for old, new in WEIGHTS.items():
        name = f".{name}".replace(f".{old}.", f".{new}.").removeprefix(".")
    return name
