"""Read and write config.json, generation.json and training.json: versioned, and validated down to the last key."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline import __version__
from sightline.bundle.contents import TaskConfig
from sightline.bundle.migration import migrate_config, migrate_generation
from sightline.bundle.training_facts import TrainingFacts
from sightline.config import from_mapping, to_mapping, unknown_name
from sightline.data.corpora.records import MAX_LABELS
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError, ModelFileError, SettingsError
from sightline.model.config import ModelConfig
from sightline.model.registry import family_of, read_config
from sightline.storage import parse_object

FORMAT = 2
"""Format version of every file written but the state.json of checkpoints; 0.1.0 wrote version 1, with older names."""
MAX_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The contents of config.json."""

    config: ModelConfig
    version: str = __version__
    special_tokens: Mapping[str, object] | None = None
    """Token of each role, if the folder has a tokenizer."""
    target_special_tokens: Mapping[str, object] | None = None
    """The same for the target tokenizer, if there is one."""
    task_config: TaskConfig | None = None


CONFIG_KEYS = (
    "format", "sightline", "architecture", "model", "special_tokens", "target_special_tokens", "task_config",
)  # fmt: skip


def read_manifest(data: bytes, path: Path) -> Manifest:
    """Read config.json."""
    entries = read_entries(data, path, migrate=migrate_config)
    unknown = [unknown_name(key, CONFIG_KEYS, what="entry") for key in entries if key not in CONFIG_KEYS]
    if unknown:
        raise ModelFileError(path, shorten("; ".join(unknown)))
    version, architecture, model = (entries.get(key) for key in ("sightline", "architecture", "model"))
    if not isinstance(architecture, str) or not isinstance(version, str) or not isinstance(model, dict):
        raise ModelFileError(path, 'must have strings "sightline" and "architecture", and an object "model"')
    check_bounds(model, path)
    try:
        config = read_config(architecture[:100], model)
        task_config = read_task_config(entries, path)
    except SettingsError as error:
        raise ModelFileError(path, shorten(str(error))) from None
    tokens, target_tokens = (read_roles(entries, key, path) for key in ("special_tokens", "target_special_tokens"))
    return Manifest(config, version[:100], tokens, target_tokens, task_config)


def read_roles(entries: Mapping[str, object], key: str, path: Path) -> Mapping[str, object] | None:
    """Return the special tokens listed by an entry, if present."""
    roles = entries.get(key)
    if roles is not None and not isinstance(roles, dict):
        raise ModelFileError(path, f'"{key}" must be an object of roles and tokens')
    return roles


def read_task_config(entries: Mapping[str, object], path: Path) -> TaskConfig | None:
    """Return the task of the model; folders of early versions have none."""
    task_config = entries.get("task_config")
    if task_config is None:
        return None
    if not isinstance(task_config, dict):
        raise ModelFileError(path, '"task_config" must be an object with a "task"')
    check_bounds(task_config, path, max_list=MAX_LABELS)
    return from_mapping(TaskConfig, task_config, where="task_config")


def format_manifest(manifest: Manifest) -> str:
    """Return the text of config.json."""
    entries = {
        "format": FORMAT,
        "sightline": manifest.version,
        "architecture": family_of(manifest.config).name,
        "model": to_mapping(manifest.config),
    }
    optional = {
        "special_tokens": manifest.special_tokens,
        "target_special_tokens": manifest.target_special_tokens,
        "task_config": manifest.task_config and to_mapping(manifest.task_config),
    }
    return to_json({**entries, **{key: value for key, value in optional.items() if value is not None}})


def read_generation(data: bytes, path: Path) -> DecodingSettings:
    """Read generation.json."""
    entries = read_entries(data, path, migrate=migrate_generation)
    del entries["format"]
    check_bounds(entries, path)
    try:
        return from_mapping(DecodingSettings, entries, where="decoding")
    except SettingsError as error:
        raise ModelFileError(path, shorten(str(error))) from None


def format_generation(settings: DecodingSettings) -> str:
    """Return the text of generation.json."""
    return to_json({"format": FORMAT, **to_mapping(settings)})


def read_training_facts(data: bytes, path: Path) -> TrainingFacts:
    """Read training.json."""
    entries = read_entries(data, path, migrate=dict)
    del entries["format"]
    check_bounds(entries, path)
    try:
        return from_mapping(TrainingFacts, entries, where="training", what="entry")
    except SettingsError as error:
        raise ModelFileError(path, shorten(str(error))) from None


def format_training_facts(facts: TrainingFacts) -> str:
    """Return the text of training.json."""
    return to_json({"format": FORMAT, **to_mapping(facts)})


def read_entries(
    data: bytes, path: Path, *, migrate: Callable[[Mapping[str, object]], dict[str, object]], newest: int = FORMAT
) -> dict[str, object]:
    """Read an object of the newest format, or of an older one, which `migrate` converts."""
    try:
        entries = parse_object(data)
    except InputError as error:
        raise ModelFileError(path, shorten(str(error))) from None
    if "format" not in entries:
        raise ModelFileError(path, 'has no "format": it was not written by Sightline')
    check_format(entries["format"], path, newest=newest)
    return entries if entries["format"] == newest else migrate(entries)


def check_format(version: object, path: Path, *, newest: int = FORMAT) -> None:
    """Refuse files of a newer format; all older ones are read."""
    if type(version) is not int or version < 1:
        raise ModelFileError(path, f"its format must be an integer from 1, not {str(version)[:60]!r}")
    if version > newest:
        raise ModelFileError(
            path,
            f"its format {str(version)[:20]} is newer than this Sightline ({__version__}) can read ({newest}): "
            "update with pip install --upgrade sightline",
        )


MAX_ENTRIES = 1_000


def check_bounds(entries: Mapping[str, object], path: Path, *, max_list: int = MAX_ENTRIES) -> None:
    """Refuse huge numbers of settings early: looking for the closest name takes quadratic time."""
    if len(entries) > MAX_ENTRIES // 10 or any(len(key) > 100 for key in entries):
        raise ModelFileError(path, f"has implausible settings: {len(entries):,} of them")
    for key, value in entries.items():
        if isinstance(value, list) and len(value) > max_list:
            raise ModelFileError(path, f"{key!r} is a list of {len(value):,}; the maximum is {max_list:,}")


def to_json(entries: Mapping[str, object]) -> str:
    """Return indented JSON."""
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


MAX_REASON = 500


def shorten(reason: str) -> str:
    """Shorten a message, whatever was in the file."""
    return reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 2]} …"
