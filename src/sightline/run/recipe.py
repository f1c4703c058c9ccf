"""A recipe: one TOML file that says what to learn, from what, how.

    task = "translation"
    [data]  [tokenizer]  [model]  [masking]  [training]  [decoding]

What a recipe leaves out is chosen by the data (`sizes`) or is the field's default. On the command line any value can be
given as `section.key=value` (`overrides`). Nothing is read here but the recipe itself.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_type_hints

from sightline.bundle.purpose import ARCHITECTURES as ARCHITECTURE_OF
from sightline.bundle.purpose import Task
from sightline.decoding.settings import DecodingSettings
from sightline.errors import SettingsError
from sightline.model.registry import ARCHITECTURES, PRESETS
from sightline.settings import Checks, from_mapping, one_of, unknown_name
from sightline.text.data import DataSettings
from sightline.text.masking import MaskingSettings
from sightline.text.trainer import Kind
from sightline.training.settings import TrainingSettings

Size = Literal["auto", "tiny", "small", "medium", "base"]

DECIDED_BY_DATA = {"vocab_size", "target_vocab_size", "n_classes"}
"""Fields of a model's config that no recipe sets."""


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens."""

    kind: Kind = field(
        default="bpe", metadata={"help": "pieces of words (bpe, wordpiece, unigram), whole words, or characters"}
    )
    vocab_size: int | None = field(default=None, metadata={"help": "different tokens"})
    split_digits: bool = field(default=False, metadata={"help": "every digit is a token of its own"})
    separate: bool = field(default=False, metadata={"help": "source and target get a vocabulary each"})
    folder: str | None = field(
        default=None, metadata={"help": "a model folder whose tokenizer is taken; none is learned then"}
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        if self.vocab_size is not None:
            checks.between(1, 1_000_000, vocab_size=self.vocab_size)
        checks.done()


@dataclass(frozen=True)
class ModelSettings:
    """Which model; further keys of the section are fields of its config."""

    size: Size = field(default="auto", metadata={"help": "auto: chosen by the amount of data"})
    preset: str | None = field(default=None, metadata={"help": f"a well-known model: {', '.join(PRESETS)}"})
    start: str | None = field(
        default=None, metadata={"help": "a model folder to go on from: its weights, sizes and tokenizer"}
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        given = [name for name in ("preset", "start") if getattr(self, name) is not None]
        given += ["size"] if self.size != "auto" else []
        checks.that(len(given) < 2, f"{' and '.join(given)} exclude each other: give one")
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

LATER: dict[str, dict[str, object]] = {
    "data": {"train": "?"},
    "training": {"schedule": "constant", "learning_rate": 0.001},
}
"""What stands for values that are not known yet, while everything else is checked."""


@dataclass(frozen=True)
class Recipe:
    """What was asked for, section by section, as plain values; `settings` makes one section whole."""

    name: str
    task: Task
    sections: Mapping[str, Mapping[str, object]]
    description: str = ""
    typed: frozenset[str] = frozenset()
    """What was set by hand in the place of the recipe's values, as section.key."""
    filled: frozenset[str] = frozenset()
    """Keys of the training that nobody has set: a run that goes on has them from its beginning."""

    @property
    def architecture(self) -> str:
        """The family that does this task."""
        return ARCHITECTURE_OF[self.task]

    @property
    def data(self) -> DataSettings:
        """The section [data]."""
        if "train" not in self.sections["data"]:
            raise SettingsError(
                f"data.train is missing: say what to learn from, as in sightline train {self.name} data.train=FILE"
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
        """What the section [model] says besides the model's config."""
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
        """Return the recipe with values in the place of its own, by "section.key", checked as a whole."""
        sections = {name: dict(entries) for name, entries in self.sections.items()}
        for name, value in values.items():
            section, _, key = name.partition(".")
            if section not in SECTIONS or key not in self.kinds(section):
                known = [f"{section}.{key}" for section in SECTIONS for key in self.kinds(section)]
                raise SettingsError(unknown_name(name, known, what="setting"))
            sections[section][key] = str(value) if isinstance(value, Path) else value
        return checked(dataclasses.replace(self, sections=sections, typed=self.typed | frozenset(values)))

    def kinds(self, section: str) -> dict[str, Any]:
        """Return the fields of a section and their types."""
        hints = get_type_hints(SECTIONS[section])
        found = {name: hints[name] for name in field_names(SECTIONS[section])}
        if section == "model":
            config = ARCHITECTURES[self.architecture][0]
            hints = get_type_hints(config)
            found |= {name: hints[name] for name in field_names(config) if name not in DECIDED_BY_DATA}
        return found

    def preset_fields(self) -> dict[str, object]:
        """Return what the preset sets, if one was chosen."""
        return dict(PRESETS[self.model.preset][1]) if self.model.preset else {}

    def to_mapping(self) -> dict[str, object]:
        """Return the recipe as it would stand in a file."""
        sections = {name: dict(values) for name, values in self.sections.items()}
        sections["training"] = {key: value for key, value in sections["training"].items() if key not in self.filled}
        return {"task": self.task, "description": self.description, **sections}


def field_names(kind: type) -> list[str]:
    """Return the names of a dataclass's fields."""
    return [item.name for item in dataclasses.fields(cast("Any", kind))]


def shipped() -> dict[str, Traversable]:
    """Return the recipes of the package by name."""
    folder = resources.files("sightline") / "recipes"
    return {entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.name.endswith(".toml")}


def read_recipe(name: str | Path) -> Recipe:
    """Read a recipe: a TOML file, or the name of one that comes with Sightline."""
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return parse_recipe(path.read_text(encoding="utf-8"), name=path.stem, where=str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: this recipe cannot be read: {error}") from None
    known = shipped()
    if str(name) not in known:
        raise SettingsError(
            f"{unknown_name(str(name), sorted(known), what='recipe')}: it is a .toml file, or one of "
            f"{', '.join(sorted(known))}"
        )
    return parse_recipe(known[str(name)].read_text(encoding="utf-8"), name=str(name), where=f"the recipe {name}")


def parse_recipe(text: str, *, name: str, where: str) -> Recipe:
    """Read the text of a recipe."""
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{where}: this is not TOML: {error}") from None
    return recipe_of(entries, name=name, where=where)


def recipe_of(entries: Mapping[str, object], *, name: str, where: str) -> Recipe:
    """Make a recipe from plain entries, all that is wrong with them named at once."""
    known = ("task", "description", *SECTIONS)
    problems = [unknown_name(key, known, what="entry") for key in entries if key not in known]
    problems += [f"[{key}] must be a section" for key in SECTIONS if not isinstance(entries.get(key, {}), dict)]
    task = entries.get("task")
    if task not in get_args(Task):
        problems.append(f"task is {str(task)[:40]!r}, not {one_of(get_args(Task), task)}")
    if problems:
        raise SettingsError(f"{where}: {'; '.join(problems)}")
    sections = {key: cast("dict[str, object]", entries.get(key, {})) for key in SECTIONS}
    recipe = Recipe(name, cast("Task", task), sections, str(entries.get("description", "")))
    try:
        return checked(recipe)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def checked(recipe: Recipe) -> Recipe:
    """Refuse settings that are unknown or out of range, before anything is read or made."""
    problems = []
    for section, kind in SECTIONS.items():
        given = dict(recipe.sections[section])
        try:
            if section == "model":
                check_model(recipe)
            else:
                from_mapping(kind, {**waiting_for(section, given), **given}, where=section)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("; ".join(problems))
    return recipe


def waiting_for(section: str, given: Mapping[str, object]) -> dict[str, object]:
    """Return what stands for values of a section that will be known later."""
    later: dict[str, object] = dict(LATER.get(section, {}))
    if section == "training" and "schedule" in given:
        ends = given["schedule"] in ("cosine", "linear")
        later = {"max_epochs": 1.0} if ends and not {"max_steps", "max_epochs"} & set(given) else {}
        if given["schedule"] != "paper":
            later |= {"learning_rate": 0.001, "warmup_steps": 0}
    return later


def check_model(recipe: Recipe) -> None:
    """Refuse a model section that no model could be made from."""
    _ = recipe.model
    preset = recipe.preset_fields()
    if recipe.model.preset and PRESETS[recipe.model.preset][0] != recipe.architecture:
        raise SettingsError(
            f"model: the preset {recipe.model.preset} is a {PRESETS[recipe.model.preset][0]}, but {recipe.task} "
            f"needs a {recipe.architecture}"
        )
    kind = ARCHITECTURES[recipe.architecture][0]
    decided = sorted(DECIDED_BY_DATA & set(recipe.model_fields) & set(field_names(kind)))
    if decided:
        raise SettingsError(f"model: {', '.join(decided)} come from the data and are not set by a recipe")
    from_mapping(kind, {"vocab_size": 1000, **preset, **recipe.model_fields}, where="model")
