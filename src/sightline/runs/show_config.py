"""The full config of a recipe: every setting with its value and help text, as a valid recipe file.

Settings chosen by the size of the dataset are comments: uncomment one to set it.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args, get_origin

from sightline.model.registry import FAMILIES
from sightline.runs.autosize import auto_settings
from sightline.runs.recipe import SECTIONS, Recipe, field_names


def config_lines(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of the full recipe."""
    yield f"# {recipe.name}: {recipe.description}"
    yield f'task = "{recipe.task}"'
    automatic = auto_settings(recipe)
    for section in SECTIONS:
        yield ""
        yield f"[{section}]"
        for key, kind in recipe.field_types(section).items():
            value, text = (
                effective_value(recipe, section, key),
                help_text(find_owner(recipe, section, key), key) + choices(kind),
            )
            if (section, key) in automatic:
                yield f"{f'# {key}':40} # {text} (auto: by dataset size)"
            elif value is None:
                yield f"{f'# {key}':40} # {text}"
            else:
                yield f"{f'{key} = {to_toml(value)}':40} # {text}"


def effective_value(recipe: Recipe, section: str, key: str) -> object:
    """Return the value of a setting: the recipe's, the preset's, or the default."""
    preset = recipe.preset_fields() if section == "model" else {}
    return recipe.sections[section].get(key, preset.get(key, defaults(find_owner(recipe, section, key)).get(key)))


def find_owner(recipe: Recipe, section: str, key: str) -> type:
    """Return the dataclass that has the setting as a field."""
    return SECTIONS[section] if key in field_names(SECTIONS[section]) else FAMILIES[recipe.family].config


def defaults(kind: type) -> dict[str, object]:
    """Return the defaults of a dataclass's fields."""
    fields = dataclasses.fields(cast("Any", kind))
    return {item.name: item.default for item in fields if item.default is not dataclasses.MISSING}


def help_text(kind: type, name: str) -> str:
    """Return the help text of a field, inherited if need be."""
    for owner in kind.__mro__:
        found = getattr(owner, "__dataclass_fields__", {}).get(name)
        if found is not None and "help" in found.metadata:
            return str(found.metadata["help"])
    return ""


def choices(kind: Any) -> str:
    """Return the allowed values of a setting, if it is one of several words."""
    words = get_args(kind) if get_origin(kind) is Literal else ()
    return f" [{', '.join(words)}]" if words else ""


def to_toml(value: object) -> str:
    """Format a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
