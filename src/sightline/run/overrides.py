"""Overrides on the command line, `section.key=value`, each parsed as the type of its setting."""

import tomllib
import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin

from sightline.errors import SettingsError
from sightline.run.recipe import SECTIONS, Recipe
from sightline.settings import convert, one_of, unknown_name


def apply_overrides(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """Return the recipe with all overrides applied; report all errors at once."""
    values: dict[str, object] = {}
    problems = []
    for override in overrides:
        try:
            name, value = parse_override(recipe, override)
            values[name] = value
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("; ".join(problems))
    return recipe.with_values(values)


def parse_override(recipe: Recipe, override: str) -> tuple[str, object]:
    """Parse one `section.key=value`."""
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise SettingsError(f"{override[:60]!r} is not of the form section.key=value, such as data.train=my.tsv")
    if section not in SECTIONS:
        raise SettingsError(f"{unknown_name(section, SECTIONS, what='section')}, not {one_of(SECTIONS)}")
    kinds = recipe.field_types(section)
    if key not in kinds:
        raise SettingsError(unknown_name(f"{section}.{key}", [f"{section}.{k}" for k in kinds], what="setting"))
    try:
        return f"{section}.{key}", parse_value(text, kinds[key])
    except SettingsError as error:
        raise SettingsError(f"{section}.{key}: {error}") from None


def parse_value(text: str, kind: Any) -> object:
    """Parse a value as the type of its setting; lists are separated by commas."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if text == "none" else parse_value(text, next(a for a in arguments if a is not type(None)))
    if origin is tuple and not text.strip().startswith("["):
        return tuple(parse_value(part.strip(), arguments[0]) for part in text.split(",") if part.strip())
    if kind is str or origin is Literal:
        return convert(text, kind)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return convert(value, kind)
