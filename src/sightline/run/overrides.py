"""Settings typed on the command line, `section.key=value`, each read as what the setting needs."""

import tomllib
import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin

from sightline.errors import SettingsError
from sightline.run.recipe import SECTIONS, Recipe
from sightline.settings import converted, one_of, unknown_name


def changed(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """Return the recipe with every override put in its place, all mistakes named at once."""
    values: dict[str, object] = {}
    problems = []
    for override in overrides:
        try:
            name, value = parsed(recipe, override)
            values[name] = value
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("; ".join(problems))
    return recipe.with_values(values)


def parsed(recipe: Recipe, override: str) -> tuple[str, object]:
    """Read one `section.key=value`."""
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise SettingsError(f"{override[:60]!r} is not of the form section.key=value, as in data.train=my.tsv")
    if section not in SECTIONS:
        raise SettingsError(f"{unknown_name(section, SECTIONS, what='section')}, not {one_of(SECTIONS)}")
    kinds = recipe.kinds(section)
    if key not in kinds:
        raise SettingsError(unknown_name(f"{section}.{key}", [f"{section}.{k}" for k in kinds], what="setting"))
    try:
        return f"{section}.{key}", typed(text, kinds[key])
    except SettingsError as error:
        raise SettingsError(f"{section}.{key}: {error}") from None


def typed(text: str, kind: Any) -> object:
    """Return a value typed on the command line as what the setting needs; lists are typed with commas."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if text == "none" else typed(text, next(a for a in arguments if a is not type(None)))
    if origin is tuple and not text.strip().startswith("["):
        return tuple(typed(part.strip(), arguments[0]) for part in text.split(",") if part.strip())
    if kind is str or origin is Literal:
        return converted(text, kind)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return converted(value, kind)
