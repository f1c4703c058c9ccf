"""A recipe: one TOML file with the task, the data, the model and all settings, and overrides on the command line.

    task = "translation"
    [data]  [tokenizer]  [model]  [masking]  [training]  [decoding]

Settings that a recipe leaves out are chosen by the size of the dataset (`autosize`) or have their default. The command
line overrides any of them with `section.key=value` (`apply_overrides`). Nothing but the recipe itself is read here.
"""

import dataclasses
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from sightline.config import Checks, choose_type, convert, from_mapping, one_of, unknown_name
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.masking import MaskingSettings
from sightline.data.tokenizers.training import MIN_FREQUENCY, Kind
from sightline.decoding.settings import DecodingSettings
from sightline.errors import SettingsError
from sightline.model.registry import FAMILIES, PRESETS
from sightline.tasks.registry import TASKS, families_for
from sightline.tasks.task import Task, TaskSettings
from sightline.training.settings import SCHEDULES_WITH_END, TrainingSettings

Size = Literal["auto", "tiny", "small", "medium", "base"]


@dataclass(frozen=True)
class TokenizerSettings:
    """Tokenizer settings, section [tokenizer] of a recipe."""

    kind: Kind = field(
        default="bpe", metadata={"help": "tokenizer type: subwords (bpe, wordpiece, unigram), words, or characters"}
    )
    vocab_size: int | None = field(default=None, metadata={"help": "vocabulary size: number of different tokens"})
    split_digits: bool = field(default=False, metadata={"help": "split numbers into digits, one token each"})
    min_frequency: int = field(
        default=MIN_FREQUENCY,
        metadata={"help": "how often a pair of tokens must occur to become one token (bpe, wordpiece)"},
    )
    add_prefix_space: bool = field(
        default=False,
        metadata={"help": "put a space before a text, so that its first word is the same token as elsewhere"},
    )
    shared_vocab: bool = field(
        default=True, metadata={"help": "shared vocabulary for source and target; false: one each"}
    )
    path: str | None = field(
        default=None, metadata={"help": "model folder whose tokenizer is used instead of training one"}
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        if self.vocab_size is not None:
            checks.between(1, 1_000_000, vocab_size=self.vocab_size)
        checks.between(1, 1_000_000, min_frequency=self.min_frequency)
        checks.done()


@dataclass(frozen=True)
class ModelSettings:
    """Model settings, section [model] of a recipe; further keys are fields of the model's config."""

    family: str | None = field(
        default=None, metadata={"help": "model family; none: the usual one of the task, or that of the preset"}
    )
    size: Size = field(default="auto", metadata={"help": "model size; auto: chosen by the size of the dataset"})
    preset: str | None = field(default=None, metadata={"help": f"model preset: {', '.join(PRESETS)}"})
    init_from: str | None = field(
        default=None,
        metadata={"help": "model folder to initialize from (fine-tuning): its weights, dimensions and tokenizer"},
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(self.preset is None or self.size == "auto", "preset and size exclude each other: set one")
        if self.preset is not None and self.preset not in PRESETS:
            checks.that(False, f"{unknown_name(self.preset, PRESETS, what='preset')}, not {one_of(PRESETS)}")
        checks.done()


SECTIONS: dict[str, type] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "model": ModelSettings,
    "masking": MaskingSettings,
    "training": TrainingSettings,
    "decoding": DecodingSettings,
}

DECIDED_BY_DATA = {"vocab_size", "target_vocab_size", "n_classes"}
"""Fields of a model's config that come from the data."""


@dataclass(frozen=True)
class Recipe:
    """The given settings, section by section, as plain values."""

    name: str
    task: str
    sections: Mapping[str, Mapping[str, object]]
    description: str = ""
    overridden: frozenset[str] = frozenset()
    """Settings overridden by the user, as section.key."""
    resolved: frozenset[str] = frozenset()
    """Keys of [training] that were not set: a resumed run has them from its first start."""
    adapted: Mapping[str, object] = field(default_factory=dict)
    """Settings chosen for a small dataset, by section.key; a resumed run has them from its first start."""

    @property
    def task_row(self) -> Task:
        """The row of the task in the registry."""
        return TASKS[self.task]

    def task_settings(self, data: DataSettings) -> TaskSettings:
        """Return what the task reads of the recipe; `data` is its section with built-in corpora resolved."""
        config = FAMILIES[self.family].config
        heads = self.model_fields.get("heads", getattr(config, "heads", ()))
        return TaskSettings(data, self.masking, tuple(cast("Iterable[str]", heads)))

    @property
    def family(self) -> str:
        """The family of the model: the one that is set, or that of the preset, or the usual one of the task."""
        given, preset = (self.sections["model"].get(name) for name in ("family", "preset"))
        if isinstance(given, str):
            return given
        return PRESETS[preset][0] if isinstance(preset, str) and preset in PRESETS else self.task_row.default_family

    @property
    def data(self) -> DataSettings:
        """The section [data]."""
        if "train" not in self.sections["data"]:
            raise SettingsError(
                f"data.train is missing: set the training set, such as sightline train {self.name} data.train=FILE"
            )
        return from_mapping(DataSettings, self.sections["data"], where="data")

    @property
    def tokenizer(self) -> TokenizerSettings:
        """The section [tokenizer]."""
        return from_mapping(TokenizerSettings, self.sections["tokenizer"], where="tokenizer")

    @property
    def masking(self) -> MaskingSettings:
        """The section [masking]."""
        return from_mapping(MaskingSettings, self.sections["masking"], where="masking")

    @property
    def decoding(self) -> DecodingSettings:
        """The section [decoding]."""
        return from_mapping(DecodingSettings, self.sections["decoding"], where="decoding")

    @property
    def model(self) -> ModelSettings:
        """The section [model] without the fields of the model's config."""
        known = field_names(ModelSettings)
        return from_mapping(
            ModelSettings, {k: v for k, v in self.sections["model"].items() if k in known}, where="model"
        )

    @property
    def model_fields(self) -> dict[str, object]:
        """The fields of the model's config that the section [model] sets."""
        known = field_names(ModelSettings)
        return {name: value for name, value in self.sections["model"].items() if name not in known}

    def with_values(self, values: Mapping[str, object]) -> "Recipe":
        """Return the recipe with some values replaced, by "section.key", and check it."""
        if "model.family" in values and values["model.family"] != self.sections["model"].get("family"):
            return self.with_family(values["model.family"]).with_values(values)  # the family decides what may be set
        sections = {name: dict(entries) for name, entries in self.sections.items()}
        for name, value in values.items():
            section, _, key = name.partition(".")
            if section not in SECTIONS or key not in self.field_types(section):
                known = [f"{section}.{key}" for section in SECTIONS for key in self.field_types(section)]
                raise SettingsError(unknown_name(name, known, what="setting"))
            sections[section][key] = str(value) if isinstance(value, Path) else value
        overridden = self.overridden | frozenset(values)
        if values.get("training.max_minutes") is not None and not LENGTH_SETTINGS & overridden:
            sections["training"] = drop_length(sections["training"])
        return check_recipe(dataclasses.replace(self, sections=sections, overridden=overridden))

    def adapt(self, values: Mapping[str, object]) -> "Recipe":
        """Return the recipe with values, by "section.key", for settings that it leaves open, and check it."""
        sections = {name: dict(entries) for name, entries in self.sections.items()}
        keys = {name: name.split(".") for name in values}
        adapted = {name: value for name, value in values.items() if keys[name][1] not in sections[keys[name][0]]}
        for name, value in adapted.items():
            sections[keys[name][0]][keys[name][1]] = value
        return check_recipe(dataclasses.replace(self, sections=sections, adapted={**self.adapted, **adapted}))

    def with_family(self, family: object) -> "Recipe":
        """Return the recipe for another family, without settings of its own family, or its preset, that do not apply.

        What the user has overridden stays: if it contradicts the family, `check_recipe` refuses it.
        """
        if family is not None and family not in FAMILIES:
            possible = families_for(self.task_row)
            raise SettingsError(
                f"model.family: {unknown_name(str(family), FAMILIES, what='family')}, not {one_of(possible)}"
            )
        model = {**self.sections["model"], "family": family}
        preset = model.get("preset")
        if preset in PRESETS and PRESETS[str(preset)][0] != family and "model.preset" not in self.overridden:
            del model["preset"]
        changed = dataclasses.replace(self, sections={**self.sections, "model": model})
        known = changed.field_types("model")
        kept = {key: value for key, value in model.items() if key in known or f"model.{key}" in self.overridden}
        return dataclasses.replace(
            changed, sections={**self.sections, "model": kept}, overridden=self.overridden | {"model.family"}
        )

    def field_types(self, section: str) -> dict[str, Any]:
        """Return the fields of a section and their types."""
        hints = get_type_hints(SECTIONS[section])
        found = {name: hints[name] for name in field_names(SECTIONS[section])}
        if section == "model":
            config = FAMILIES[self.family].config
            hints = get_type_hints(config)
            found |= {name: hints[name] for name in field_names(config) if name not in DECIDED_BY_DATA}
        return found

    def preset_fields(self) -> dict[str, object]:
        """Return the fields that the preset sets, if there is one."""
        return dict(PRESETS[self.model.preset][1]) if self.model.preset else {}

    def to_mapping(self) -> dict[str, object]:
        """Return the recipe as the entries of a file."""
        chosen = {f"training.{key}" for key in self.resolved} | set(self.adapted)
        sections = {
            name: {key: value for key, value in values.items() if f"{name}.{key}" not in chosen}
            for name, values in self.sections.items()
        }
        return {"task": self.task, "description": self.description, **sections}


LENGTH_SETTINGS = frozenset({"training.max_steps", "training.max_epochs", "training.warmup_steps"})
"""Settings that describe a run of a certain length: a recipe's own give way to minutes that the user sets."""


def drop_length(training: Mapping[str, object], *, keep: Iterable[str] = ()) -> dict[str, object]:
    """Return the section [training] without its length; the warmup stays where the length does not decide it."""
    has_end = training.get("schedule", "noam") in SCHEDULES_WITH_END
    dropped = (
        {name.removeprefix("training.") for name in LENGTH_SETTINGS}
        - set(keep)
        - (set() if has_end else {"warmup_steps"})
    )
    return {name: value for name, value in training.items() if name not in dropped}


def field_names(kind: type) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [item.name for item in dataclasses.fields(cast("Any", kind))]


def list_recipes() -> dict[str, Traversable]:
    """Return the built-in recipes by name."""
    folder = resources.files("sightline") / "recipes"
    return {entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.name.endswith(".toml")}


def read_recipe(name: str | Path) -> Recipe:
    """Read a recipe: a TOML file, or the name of a built-in one."""
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return parse_recipe(path.read_text(encoding="utf-8"), name=path.stem, where=str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: the recipe cannot be read: {error}") from None
    known = list_recipes()
    if str(name) not in known:
        raise SettingsError(
            f"{unknown_name(str(name), sorted(known), what='recipe')}: give a .toml file, or one of "
            f"{', '.join(sorted(known))}"
        )
    return parse_recipe(known[str(name)].read_text(encoding="utf-8"), name=str(name), where=f"the recipe {name}")


def parse_recipe(text: str, *, name: str, where: str) -> Recipe:
    """Parse the text of a recipe."""
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{where}: invalid TOML: {error}") from None
    return build_recipe(entries, name=name, where=where)


def build_recipe(entries: Mapping[str, object], *, name: str, where: str) -> Recipe:
    """Build a recipe from plain entries; report all errors at once."""
    known = ("task", "description", *SECTIONS)
    problems = [unknown_name(key, known, what="entry") for key in entries if key not in known]
    problems += [f"[{key}] must be a section" for key in SECTIONS if not isinstance(entries.get(key, {}), dict)]
    task = entries.get("task")
    if task not in TASKS:
        problems.append(f"task is {str(task)[:40]!r}, not {one_of(TASKS, task)}")
    if problems:
        raise SettingsError(f"{where}: {'; '.join(problems)}")
    sections = {key: cast("dict[str, object]", entries.get(key, {})) for key in SECTIONS}
    recipe = Recipe(name, str(task), sections, str(entries.get("description", "")))
    try:
        return check_recipe(recipe)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def check_recipe(recipe: Recipe) -> Recipe:
    """Reject settings that are unknown or out of range, before anything is read or built; return the recipe."""
    problems = [
        f"data.{name} is not for {recipe.task}: leave it out"
        for name in ("source_language", "target_language")
        if recipe.sections["data"].get(name) is not None and name not in recipe.task_row.config_entries
    ]
    for section, kind in SECTIONS.items():
        given = dict(recipe.sections[section])
        try:
            if section == "model":
                check_model(recipe)
            else:
                from_mapping(kind, {**placeholders_for(section, given), **given}, where=section)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("; ".join(problems))
    return recipe


PLACEHOLDERS: dict[str, dict[str, object]] = {
    "data": {"train": "?"},
    "training": {"schedule": "constant", "learning_rate": 0.001},
}
"""Placeholders for values that are not known yet, so that everything else can be checked."""


def placeholders_for(section: str, given: Mapping[str, object]) -> dict[str, object]:
    """Return placeholders for the values of a section that are not known yet."""
    placeholders: dict[str, object] = dict(PLACEHOLDERS.get(section, {}))
    if section == "training" and "schedule" in given:
        has_end = given["schedule"] in SCHEDULES_WITH_END
        placeholders = {"max_epochs": 1.0} if has_end and not {"max_steps", "max_epochs"} & set(given) else {}
        if given["schedule"] != "noam":
            placeholders |= {"learning_rate": 0.001, "warmup_steps": 0}
    return placeholders


def check_model(recipe: Recipe) -> None:
    """Reject a section [model] that no model can be built from."""
    check_family(recipe)
    _ = recipe.model
    preset = recipe.preset_fields()
    kind = FAMILIES[recipe.family].config
    decided = sorted(DECIDED_BY_DATA & set(recipe.model_fields) & set(field_names(kind)))
    if decided:
        raise SettingsError(f"model: {', '.join(decided)} come from the data and cannot be set")
    from_mapping(kind, {"vocab_size": 1000, **preset, **recipe.model_fields}, where="model")


def check_family(recipe: Recipe) -> None:
    """Reject a family that cannot do the task, or that is not the preset's."""
    possible, preset = families_for(recipe.task_row), recipe.sections["model"].get("preset")
    given = str(recipe.sections["model"].get("family") or recipe.family)
    if given not in FAMILIES:
        raise SettingsError(f"model.family: {unknown_name(given, FAMILIES, what='family')}, not {one_of(possible)}")
    of_preset = PRESETS[preset][0] if isinstance(preset, str) and preset in PRESETS else given
    if of_preset != given:
        raise SettingsError(f"model: the preset {preset} is a {of_preset}, but model.family is {given}: set one")
    two = recipe.task_row.reads_pairs and recipe.sections["tokenizer"].get("shared_vocab") is False
    if two and "target_vocab_size" not in field_names(FAMILIES[given].config):
        raise SettingsError(f"tokenizer.shared_vocab: a {given} reads source and target with one vocabulary: set true")
    if given not in possible:
        source = f"the preset {preset} is" if preset else "model.family is"
        raise SettingsError(f"model: {source} a {given}, but {recipe.task} needs a {' or a '.join(possible)}")


def apply_overrides(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """Return the recipe with all overrides applied; report all errors at once."""
    values: dict[str, object] = {}
    problems = []
    overrides = list(overrides)
    for override in overrides:
        if override.startswith("model.family="):  # the family decides what else may be set
            recipe = recipe.with_family(parse_value(override.partition("=")[2], str | None))
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
        is_list = text.strip().startswith("[") and text.strip().endswith("]")
        kind = choose_type([] if is_list else text, arguments)
        return None if text == "none" else parse_value(text, kind)
    if origin is tuple and not text.strip().startswith("["):
        return tuple(parse_value(part.strip(), arguments[0]) for part in text.split(",") if part.strip())
    if kind is str or origin is Literal:
        return convert(text, kind)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return convert(value, kind)
