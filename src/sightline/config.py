"""Settings as frozen dataclasses, read from plain mappings (JSON, TOML) and written back.

A field is the only definition of a setting: its annotation is the accepted type, its default the default value, its
`help` metadata the help text. Each dataclass checks its own ranges in `__post_init__`, with `Checks`. Knows nothing of
files, models or text.
"""

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from sightline.errors import SettingsError
from sightline.renames import new_setting, new_values

Settings = TypeVar("Settings")


def from_mapping(
    kind: type[Settings],
    mapping: Mapping[str, object],
    *,
    where: str = "settings",
    what: str = "setting",
    complete: bool = False,
) -> Settings:
    """Build `kind` from a mapping; raise one `SettingsError` that lists every problem.

    With `complete`, a field with a default must be there too. `what` is what messages call a field.
    """
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(cast("Any", kind)) if field.init}
    problems = [unknown_name(name, fields, what=what) for name in mapping if name not in fields]
    values = {}
    for name, field in fields.items():
        if name in mapping:
            try:
                values[name] = convert(mapping[name], hints[name])
            except SettingsError as error:
                problems.append(f"{name}: {error}")
        elif complete or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING):
            problems.append(f"{name} is missing")
    if problems:
        raise SettingsError(f"{where}: {'; '.join(problems)}")
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def to_mapping(settings: object) -> dict[str, object]:
    """Return the fields of a settings dataclass as plain JSON-ready values."""
    return dataclasses.asdict(cast("Any", settings))


def convert(value: object, kind: Any) -> Any:
    """Return `value` as the annotated `kind`, refusing likely mistakes (a bool for a number, "3" for 3)."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value if value in arguments else refuse(value, one_of(arguments, value))
    if origin in (Union, types.UnionType):
        return None if value is None else convert(value, choose_type(value, arguments))
    if origin in (tuple, Mapping) or dataclasses.is_dataclass(kind):
        return convert_collection(value, kind)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 1 << 53 else refuse(value, "a number of ordinary size")
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if type(value) is not kind:
        refuse(value, names[kind])
    if kind is float and not math.isfinite(cast("float", value)):
        refuse(value, "a finite number")
    return value


def choose_type(value: object, kinds: tuple[Any, ...]) -> Any:
    """Return the kind a value is to be: of several, a list is a tuple, and anything else the first."""
    several = [kind for kind in kinds if get_origin(kind) is tuple]
    return several[0] if several and isinstance(value, list | tuple) else next(k for k in kinds if k is not type(None))


def convert_collection(value: object, kind: Any) -> Any:
    """Return `value` as a tuple, a mapping from names, or a settings dataclass."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            refuse(value, "a list")
        return tuple(convert(item, arguments[0]) for item in value)
    if not arguments and isinstance(value, kind):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        refuse(value, "an object")
    if arguments:
        return {key: convert(item, arguments[1]) for key, item in value.items()}
    return from_mapping(kind, value, where="entry")


def refuse(value: object, allowed: str) -> NoReturn:
    """Raise a `SettingsError` that names the value given and what is allowed."""
    given = repr(value)
    raise SettingsError(f"{given if len(given) <= 60 else given[:57] + '...'} is not {allowed}")


def one_of(allowed: Iterable[object], given: object = None) -> str:
    """Return "one of …", with the closest match to `given` if there is one."""
    names = [str(name) for name in allowed]
    near = [new for new in map(str, new_values(given)) if new in names]
    near = near or difflib.get_close_matches(str(given), names, n=1)
    return f"one of {', '.join(names)}" + (f" (did you mean {near[0]}?)" if near else "")


def unknown_name(name: str, known: Iterable[str], *, what: str) -> str:
    """Return the message for an unknown name, with the closest known one."""
    known = list(known)
    near = [new for new in new_setting(name) if new in known] or difflib.get_close_matches(name, known, n=1)
    return f"unknown {what} {name[:60]!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


class Checks:
    """Collects the problems of one settings object, so that all are reported at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def that(self, holds: bool, problem: str) -> None:
        """Record `problem` unless the condition holds."""
        if not holds:
            self.problems.append(problem)

    def types_of(self, settings: object) -> None:
        """Raise if a field's value is not of its annotated type: nothing else can be checked then."""
        for name, kind in get_type_hints(type(settings)).items():
            try:
                convert(getattr(settings, name), kind)
            except SettingsError as error:
                self.problems.append(f"{name}: {error}")
        self.done()

    def between(self, low: int | float, high: int | float, **values: int | float) -> None:
        """Record every value outside [low, high]."""
        for name, value in values.items():
            self.that(low <= value <= high, f"{name} must be between {low:,} and {high:,}, not {value}")

    def done(self) -> None:
        """Raise a `SettingsError` with all recorded problems, if any."""
        if self.problems:
            raise SettingsError("; ".join(self.problems))
