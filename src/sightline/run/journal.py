"""run.json: all that is needed to do a run again, and what became of it.

recipe      as it was asked for, overrides included
resolved    with every gap filled: what was really done
data        the files, their digests, what was met in them
environment versions, threads, device
outcome     why it ended, the best step and its scores (when it has ended)
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sightline import __version__
from sightline.bundle.atomic import force_to_disk
from sightline.bundle.manifest import FORMAT, as_json, read_entries
from sightline.bundle.source import open_regular, read_all
from sightline.errors import ModelFileError, RefusedError, SightlineError
from sightline.model.registry import ARCHITECTURES
from sightline.run.explain import defaults
from sightline.run.folder import JOURNAL
from sightline.run.prepare import Prepared
from sightline.run.recipe import SECTIONS
from sightline.settings import to_mapping
from sightline.text.data import Part
from sightline.text.store import content_hash
from sightline.training.environment import environment

LARGEST = 4 << 20

MAY_CHANGE = {
    f"training.{name}"
    for name in (
        "max_steps", "max_epochs", "max_minutes", "patience", "validate_every", "checkpoint_every", "log_every",
        "keep_last", "threads", "snapshots",
    )
}  # fmt: skip
"""Settings with which a run may go on though they were others when it began."""


def read_journal(folder: Path) -> dict[str, Any] | None:
    """Return what is written about a run, or None where there is none."""
    path = folder / JOURNAL
    file = open_regular(path)
    if file is None:
        return None
    with file:
        return read_entries(read_all(file, path, most=LARGEST), path)


def write_journal(folder: Path, entries: Mapping[str, object]) -> None:
    """Write run.json in one instant."""
    path, new = folder / JOURNAL, folder / f"{JOURNAL}.tmp-new"
    try:
        new.write_text(as_json({"format": FORMAT, **entries}), encoding="utf-8", newline="\n")
        force_to_disk(new)
        new.rename(path)
        force_to_disk(folder)
    except OSError as error:
        raise SightlineError(f"could not write {path}: {error.strerror or error}") from error


def now() -> str:
    """Return the time, as a person reads it."""
    return datetime.now().astimezone().isoformat(" ", "seconds")


def check_same(then: Mapping[str, Any], asked: Mapping[str, object], folder: Path) -> list[str]:
    """Refuse to go on with other settings than the run began with; return the changes that do no harm."""
    before, after = {**flat(known_defaults()), **flat(then)}, flat(json.loads(json.dumps(asked)))
    before = {name: value for name, value in before.items() if name in after or name in flat(then)}
    changed = [
        f"{name} was {shown(before.get(name))} and is {shown(after.get(name))}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    wrong = [text for text in changed if text.split()[0] not in MAY_CHANGE]
    if wrong:
        raise RefusedError(
            f"{folder} cannot go on with other settings: {'; '.join(wrong[:5])}. "
            "Resume without them, or start a new run in another folder"
        )
    return changed


def known_defaults() -> dict[str, dict[str, object]]:
    """Return the defaults of every section: what a setting was that did not exist when a run began."""
    found = {name: defaults(kind) for name, kind in SECTIONS.items()}
    for config, _ in ARCHITECTURES.values():
        found["model"] = {**defaults(config), **found["model"]}
    plain: dict[str, dict[str, object]] = json.loads(json.dumps(found))
    return plain


def flat(sections: Mapping[str, Any]) -> dict[str, object]:
    """Return nested entries as section.key."""
    found: dict[str, object] = {}
    for section, values in sections.items():
        if isinstance(values, dict):
            found |= {f"{section}.{key}": value for key, value in values.items()}
        elif section != "description":
            found[section] = values
    return found


def shown(value: object) -> str:
    """Return a value in a few characters."""
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:38]} …"


def recipe_entries(journal: Mapping[str, Any], folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the entries of the recipe a run began with."""
    name, entries = journal.get("name"), journal.get("recipe")
    if not isinstance(name, str) or not isinstance(entries, dict):
        raise ModelFileError(folder / JOURNAL, "does not say which recipe the run follows")
    return name, entries


def entries_of(ready: Prepared, before: Mapping[str, Any] | None) -> dict[str, object]:
    """Return what run.json says when a run begins or goes on."""
    recipe, data = ready.recipe, ready.examples.data
    parts: tuple[Part, ...] = ("train", "valid")
    files = {
        f"{part}_{side}": content_hash(path)
        for part in parts
        for side, path in zip(("source", "target"), data.files(part), strict=False)
    }
    return {
        "sightline": __version__,
        "name": recipe.name,
        "recipe": recipe.to_mapping(),
        "resolved": {
            "task": recipe.task,
            "data": {**to_mapping(recipe.data), "sha256": files},
            "tokenizer": {**to_mapping(recipe.tokenizer), "vocab_size": ready.examples.vocabulary.source.vocab_size},
            "model": {**to_mapping(recipe.model), **to_mapping(ready.state.model.config)},
            "masking": to_mapping(recipe.masking),
            "training": to_mapping(ready.settings),
            "decoding": to_mapping(recipe.decoding),
        },
        "data": {
            "examples": ready.amount.examples,
            "tokens": ready.amount.tokens,
            "validation_examples": int(ready.examples.valid.chosen.sum()),
            "met": ready.examples.train.store.counts.to_mapping(),
        },
        "environment": environment(ready.state.model),
        "began": [*(before or {}).get("began", []), now()],
        "outcome": None,
    }
