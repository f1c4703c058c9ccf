"""run.json: everything needed to repeat a run, and its outcome.

recipe      as given, with overrides
adapted     settings that it leaves open, chosen for a small dataset
resolved    the complete settings that were used
data        number of examples and tokens, and problems found in the files
environment versions, threads, device
plans       with a limit in minutes: which update was to be the last, as planned after which update (`time_budget`)
outcome     why the run stopped, progress and scores of the best model (at the end)
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sightline import __version__
from sightline.bundle.manifest import FORMAT, read_entries, to_json
from sightline.bundle.migration import migrate_run_record
from sightline.config import from_mapping, to_mapping
from sightline.data.corpora.settings import DataSettings, Part
from sightline.data.datasets.encoded_dataset import content_hash
from sightline.errors import ModelFileError, RefusedError, SettingsError, SightlineError
from sightline.model.registry import FAMILIES
from sightline.runs.folder import RUN_RECORD
from sightline.runs.prepare import PreparedRun
from sightline.runs.recipe import LENGTH_SETTINGS, SECTIONS
from sightline.runs.show_config import defaults
from sightline.storage import fsync, open_regular, read_limited
from sightline.training.checkpoint import collect_environment
from sightline.training.time_budget import Plan

MAX_BYTES = 4 << 20

CHANGEABLE = {
    f"training.{name}"
    for name in (
        "max_steps", "max_epochs", "max_minutes", "patience", "validate_every", "checkpoint_every", "log_every",
        "keep_checkpoints", "threads", "snapshots",
    )
}  # fmt: skip
"""Settings that may change when a run is resumed."""


def read_run_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a run, or None if there is none."""
    path = folder / RUN_RECORD
    file = open_regular(path)
    if file is None:
        return None
    with file:
        record = read_entries(read_limited(file, path, max_bytes=MAX_BYTES), path, migrate=migrate_run_record)
    resolved = record.get("resolved")
    data = resolved.get("data") if isinstance(resolved, dict) else None
    if isinstance(data, dict):
        data.setdefault("validation_share", None)  # a run of 0.2.0 or before keeps what it held out
    return record


def write_run_record(folder: Path, entries: Mapping[str, object]) -> None:
    """Write run.json atomically."""
    path, new = folder / RUN_RECORD, folder / f"{RUN_RECORD}.tmp-new"
    try:
        new.write_text(to_json({"format": FORMAT, **entries}), encoding="utf-8", newline="\n")
        fsync(new)
        new.rename(path)
        fsync(folder)
    except OSError as error:
        raise SightlineError(f"could not write {path}: {error.strerror or error}") from error


def now() -> str:
    """Return the local time in ISO format."""
    return datetime.now().astimezone().isoformat(" ", "seconds")


def check_settings_match(old: Mapping[str, Any], new: Mapping[str, object], folder: Path) -> list[str]:
    """Refuse to resume with other settings than the run started with; return the harmless changes."""
    before, after = {**flatten(default_sections()), **flatten(old)}, flatten(json.loads(json.dumps(new)))
    before = {name: value for name, value in before.items() if name in after or name in flatten(old)}
    changed = [
        f"{name} was {format_setting(before.get(name))} and is {format_setting(after.get(name))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
        and not (name == "training.threads" and before.get(name) is None)  # not recorded by earlier versions
    ]
    wrong = [text for text in changed if text.split()[0] not in CHANGEABLE]
    if wrong:
        raise RefusedError(
            f"{folder} cannot be resumed with other settings: {'; '.join(wrong[:5])}. "
            "Resume without them, or start a new run in another folder"
        )
    return changed


def default_sections() -> dict[str, dict[str, object]]:
    """Return the defaults of every section: the values of settings that did not exist when a run started."""
    found = {name: defaults(kind) for name, kind in SECTIONS.items()}
    for config in (family.config for family in FAMILIES.values()):
        found["model"] = {**defaults(config), **found["model"]}
    plain: dict[str, dict[str, object]] = json.loads(json.dumps(found))
    return plain


def flatten(sections: Mapping[str, Any]) -> dict[str, object]:
    """Flatten nested entries to section.key."""
    found: dict[str, object] = {}
    for section, values in sections.items():
        if isinstance(values, dict):
            found |= {f"{section}.{key}": value for key, value in values.items()}
        elif section != "description":
            found[section] = values
    return found


def format_setting(value: object) -> str:
    """Format a value in a few characters."""
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:38]} …"


def find_recipe_entries(record: Mapping[str, Any], folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the entries of the recipe of a run."""
    name, entries = record.get("name"), record.get("recipe")
    if not isinstance(name, str) or not isinstance(entries, dict):
        raise ModelFileError(folder / RUN_RECORD, "does not name the recipe of the run")
    return name, entries


def build_record_entries(run: PreparedRun, before: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the entries of run.json at the start of a run, or when it is resumed."""
    recipe = run.recipe
    return {
        "sightline": __version__,
        "name": recipe.name,
        "recipe": recipe.to_mapping(),
        "adapted": dict(recipe.adapted),
        "resolved": {
            "task": recipe.task,
            "data": {**to_mapping(recipe.data), "sha256": hash_files(run.examples.data)},
            "tokenizer": {**to_mapping(recipe.tokenizer), "vocab_size": run.examples.tokenizers.source.vocab_size},
            "model": {**to_mapping(recipe.model), **to_mapping(run.state.model.config)},
            "masking": to_mapping(recipe.masking),
            "training": to_mapping(run.settings),
            "decoding": to_mapping(recipe.decoding),
        },
        "data": {
            "examples": run.dataset_size.n_examples,
            "tokens": run.dataset_size.n_tokens,
            "validation_examples": int(run.examples.valid.selected.sum()),
            "met": run.examples.train.dataset.counts.to_mapping(),
        },
        "environment": collect_environment(run.state.model),
        "began": [*(before or {}).get("began", []), now()],
        **({"plans": (before or {}).get("plans", [])} if before is None or has_plans(before) else {}),
        **(
            {"products": before["products"]}
            if before and "products" in before and run.settings.precision == "auto"
            else {}
        ),
        "outcome": None,
    }


def hash_files(data: DataSettings) -> dict[str, str]:
    """Return a hash of the contents of each side of the training and validation set."""
    parts: tuple[Part, ...] = ("train", "valid")
    return {
        f"{part}_{column}": content_hash(*paths)
        for part in parts
        for column, paths in zip(("source", "target"), data.sides(part), strict=False)
    }


def read_adapted(record: Mapping[str, Any], folder: Path) -> dict[str, object]:
    """Return the settings that a run has chosen for a small dataset; runs of older versions have none.

    The length of the run is left out: it has become a number of updates.
    """
    found = record.get("adapted", {})
    names = [name.split(".") if isinstance(name, str) else [] for name in found] if isinstance(found, dict) else [[]]
    if not all(len(name) == 2 and name[0] in SECTIONS for name in names):
        raise ModelFileError(folder / RUN_RECORD, "has invalid settings for a small dataset")
    return {name: value for name, value in found.items() if name not in LENGTH_SETTINGS}


def has_plans(record: Mapping[str, Any]) -> bool:
    """Tell whether the minutes of a run are planned; in runs of older versions they are only a limit."""
    return "plans" in record


def read_plans(record: Mapping[str, Any] | None, folder: Path) -> list[Plan]:
    """Return the plans of a run with a limit in minutes."""
    try:
        return [from_mapping(Plan, entries, where="plans") for entries in (record or {}).get("plans", [])]
    except (SettingsError, TypeError) as error:
        raise ModelFileError(folder / RUN_RECORD, f"has invalid plans: {error}") from None


def write_plans(folder: Path, record: Mapping[str, Any], plans: Sequence[Plan]) -> None:
    """Write the plans of a run with its record, before they are followed."""
    write_run_record(folder, {**record, "plans": [to_mapping(plan) for plan in plans]})
