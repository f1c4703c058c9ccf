"""Every option of a recipe, its value and its meaning: a recipe in full, as a file that can be used as it is.

What the amount of data will decide stands there as a comment: set it, and it is no longer decided.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args, get_origin

from sightline.model.registry import ARCHITECTURES
from sightline.run.recipe import SECTIONS, Recipe, field_names
from sightline.run.sizes import left_to_data


def explanation(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of the explained recipe."""
    yield f"# {recipe.name}: {recipe.description}"
    yield f'task = "{recipe.task}"'
    decided = left_to_data(recipe)
    for section in SECTIONS:
        yield ""
        yield f"[{section}]"
        for key, kind in recipe.kinds(section).items():
            value, text = value_of(recipe, section, key), meaning(owner_of(recipe, section, key), key) + choices(kind)
            if (section, key) in decided:
                yield f"{f'# {key}':40} # {text} (chosen by the data)"
            elif value is None:
                yield f"{f'# {key}':40} # {text}"
            else:
                yield f"{f'{key} = {toml_of(value)}':40} # {text}"


def value_of(recipe: Recipe, section: str, key: str) -> object:
    """Return what an option is: the recipe's, the preset's, or the default."""
    preset = recipe.preset_fields() if section == "model" else {}
    return recipe.sections[section].get(key, preset.get(key, defaults(owner_of(recipe, section, key)).get(key)))


def owner_of(recipe: Recipe, section: str, key: str) -> type:
    """Return the dataclass whose field an option is."""
    return SECTIONS[section] if key in field_names(SECTIONS[section]) else ARCHITECTURES[recipe.architecture][0]


def defaults(kind: type) -> dict[str, object]:
    """Return the defaults of a dataclass's fields."""
    fields = dataclasses.fields(cast("Any", kind))
    return {item.name: item.default for item in fields if item.default is not dataclasses.MISSING}


def meaning(kind: type, name: str) -> str:
    """Return what a field means, as said where it was defined first."""
    for owner in kind.__mro__:
        found = getattr(owner, "__dataclass_fields__", {}).get(name)
        if found is not None and "help" in found.metadata:
            return str(found.metadata["help"])
    return ""


def choices(kind: Any) -> str:
    """Return the words to choose from, where a setting is one of several."""
    words = get_args(kind) if get_origin(kind) is Literal else ()
    return f" [{', '.join(words)}]" if words else ""


def toml_of(value: object) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_of, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
