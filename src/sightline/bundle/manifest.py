"""config.json and generation.json: small, versioned, and checked to the last key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline import __version__
from sightline.bundle.purpose import Purpose
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError, ModelFileError, SettingsError
from sightline.model.config import BlockConfig
from sightline.model.registry import architecture_of, read_config
from sightline.settings import from_mapping, to_mapping, unknown_name
from sightline.text.labels import MOST as MOST_LABELS
from sightline.text.strict_json import parse_object

FORMAT = 1
LARGEST = 1 << 20
MOST_ENTRIES = 1_000
LONGEST_REASON = 500
CONFIG_KEYS = (
    "format", "sightline", "architecture", "model", "special_tokens", "target_special_tokens", "purpose",
)  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """What config.json says."""

    config: BlockConfig
    version: str = __version__
    special_tokens: Mapping[str, object] | None = None
    """Role and token of each, where the folder has a tokenizer."""
    target_special_tokens: Mapping[str, object] | None = None
    """The same of the tokenizer for targets, where there is one."""
    purpose: Purpose | None = None


def read_manifest(data: bytes, path: Path) -> Manifest:
    """Read config.json."""
    entries = read_entries(data, path)
    strange = [unknown_name(key, CONFIG_KEYS, what="entry") for key in entries if key not in CONFIG_KEYS]
    if strange:
        raise ModelFileError(path, shortened("; ".join(strange)))
    version, architecture, model = (entries.get(key) for key in CONFIG_KEYS[1:4])
    if not isinstance(architecture, str) or not isinstance(version, str) or not isinstance(model, dict):
        raise ModelFileError(path, 'must have text as "sightline" and "architecture", and an object as "model"')
    check_bounds(model, path)
    try:
        config = read_config(architecture[:100], model)
        purpose = read_purpose(entries, path)
    except SettingsError as error:
        raise ModelFileError(path, shortened(str(error))) from None
    tokens, target_tokens = (read_roles(entries, key, path) for key in CONFIG_KEYS[4:6])
    return Manifest(config, version[:100], tokens, target_tokens, purpose)


def read_roles(entries: Mapping[str, object], key: str, path: Path) -> Mapping[str, object] | None:
    """Return the special tokens that an entry names, if it is there."""
    roles = entries.get(key)
    if roles is not None and not isinstance(roles, dict):
        raise ModelFileError(path, f'"{key}" must be an object of roles and tokens')
    return roles


def read_purpose(entries: Mapping[str, object], path: Path) -> Purpose | None:
    """Return what the model was made for; folders of earlier versions do not say."""
    purpose = entries.get("purpose")
    if purpose is None:
        return None
    if not isinstance(purpose, dict):
        raise ModelFileError(path, '"purpose" must be an object with a "task"')
    check_bounds(purpose, path, longest_list=MOST_LABELS)
    return from_mapping(Purpose, purpose, where="purpose")


def manifest_text(manifest: Manifest) -> str:
    """Write config.json."""
    entries = {
        "format": FORMAT,
        "sightline": manifest.version,
        "architecture": architecture_of(manifest.config),
        "model": to_mapping(manifest.config),
    }
    known = {
        "special_tokens": manifest.special_tokens,
        "target_special_tokens": manifest.target_special_tokens,
        "purpose": manifest.purpose and to_mapping(manifest.purpose),
    }
    return as_json({**entries, **{key: value for key, value in known.items() if value is not None}})


def read_generation(data: bytes, path: Path) -> DecodingSettings:
    """Read generation.json."""
    entries = read_entries(data, path)
    del entries["format"]
    check_bounds(entries, path)
    try:
        return from_mapping(DecodingSettings, entries, where="decoding")
    except SettingsError as error:
        raise ModelFileError(path, shortened(str(error))) from None


def generation_text(settings: DecodingSettings) -> str:
    """Write generation.json."""
    return as_json({"format": FORMAT, **to_mapping(settings)})


def read_entries(data: bytes, path: Path) -> dict[str, object]:
    """Read an object of this format, or an older one."""
    try:
        entries = parse_object(data)
    except InputError as error:
        raise ModelFileError(path, shortened(str(error))) from None
    if "format" not in entries:
        raise ModelFileError(path, 'has no "format": it is not Sightline\'s; files of others are imported, not opened')
    check_format(entries["format"], path)
    return entries


def check_format(version: object, path: Path) -> None:
    """Refuse what a later Sightline wrote; everything earlier is read."""
    if type(version) is not int or version < 1:
        raise ModelFileError(path, f"its format must be a number from 1, not {str(version)[:60]!r}")
    if version > FORMAT:
        raise ModelFileError(
            path,
            f"its format {str(version)[:20]} is newer than this Sightline ({__version__}) can read ({FORMAT}): "
            "update with pip install --upgrade sightline",
        )


def check_bounds(entries: Mapping[str, object], path: Path, *, longest_list: int = MOST_ENTRIES) -> None:
    """Refuse settings by the thousand before anyone compares them with each other."""
    if len(entries) > MOST_ENTRIES // 10 or any(len(key) > 100 for key in entries):
        raise ModelFileError(path, f"has settings no one means: {len(entries):,} of them")
    for key, value in entries.items():
        if isinstance(value, list) and len(value) > longest_list:
            raise ModelFileError(path, f"{key!r} is a list of {len(value):,}; at most {longest_list:,} are read")


def as_json(entries: Mapping[str, object]) -> str:
    """Return JSON for people."""
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def shortened(reason: str) -> str:
    """Keep a sentence one line long, whatever was in the file."""
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 2]} …"
