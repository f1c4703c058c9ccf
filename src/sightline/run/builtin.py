"""Corpora that need no file: the phrasebook, which the program makes itself, and the dialogues of a package.

A recipe names one as `data.train = "builtin:phrasebook"`. It is written down as an ordinary file beside the encoded
corpora, and read like any other.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from sightline.bundle.atomic import force_to_disk
from sightline.errors import SettingsError, SightlineError
from sightline.settings import one_of
from sightline.text.chance import order
from sightline.text.data import DataSettings
from sightline.text.phrasebook import LANGUAGES, Phrase, Phrasebook, directions, make_phrasebook

PREFIX = "builtin:"
N_TRAIN, N_UNSEEN, SEED = 8_000, 500, 0
DIRECTIONS_OF_EACH = 8
"""Of the thirty directions every phrase is learned in some: enough to learn that the others go alike."""

LEFT_OUT = {"tech_support.yml"}
"""Half of all the package's dialogues, about one subject."""


def phrasebook() -> Phrasebook:
    """Return the phrases of the demo: those to learn from and those to ask."""
    return make_phrasebook(n_train=N_TRAIN, n_unseen=N_UNSEEN, seed=SEED)


def phrase_lines(phrases: tuple[Phrase, ...], *, per_phrase: int) -> Iterator[str]:
    """Yield each phrase in some directions: source, target, and the target's language."""
    ways = directions()
    for number, phrase in enumerate(phrases):
        said = {language: phrase.text(language) for language in LANGUAGES}
        for way in order(len(ways), SEED, number)[:per_phrase].tolist():
            source, target = ways[way]
            yield f"{said[source]}\t{said[target]}\t{target}"


def learned_phrases() -> Iterator[str]:
    """Yield the lines to learn from."""
    return phrase_lines(phrasebook().train, per_phrase=DIRECTIONS_OF_EACH)


def unseen_phrases() -> Iterator[str]:
    """Yield the lines to validate on, none of which is learned in any direction."""
    return phrase_lines(phrasebook().unseen, per_phrase=1)


def chatterbot_dialogues() -> Iterator[str]:
    """Yield the English dialogues of the package chatterbot-corpus."""
    if find_spec("chatterbot_corpus") is None:
        raise SettingsError(
            "the recipe chat learns from the package chatterbot-corpus unless told otherwise: "
            'pip install "sightline[chat]", or give dialogues of your own as data.train=FILE'
        )
    import yaml

    folder = files("chatterbot_corpus") / "data" / "english"
    entries = sorted((entry for entry in folder.iterdir() if entry.name not in LEFT_OUT), key=lambda entry: entry.name)
    for entry in entries:
        for turns in yaml.safe_load(entry.read_text(encoding="utf-8"))["conversations"]:
            yield json.dumps({"turns": [str(turn) for turn in turns]}, ensure_ascii=False)


SOURCES: dict[str, tuple[str, Callable[[], Iterator[str]], Callable[[], Iterator[str]] | None]] = {
    "phrasebook": (".tsv", learned_phrases, unseen_phrases),
    "chatterbot": (".jsonl", chatterbot_dialogues, None),
}
"""By name: the kind of file, what is learned from, and what is validated on if that is not split off."""


def written_down(root: Path, data: DataSettings) -> DataSettings:
    """Return settings that name real files, the built-in corpus written to `root` if one is asked for."""
    if not data.train.startswith(PREFIX):
        return data
    name = data.train.removeprefix(PREFIX)
    if name not in SOURCES:
        raise SettingsError(f"data.train: there is no built-in corpus {name[:40]!r}, only {one_of(SOURCES, name)}")
    suffix, train, valid = SOURCES[name]
    own = None if data.valid is None else str(data.files("valid")[0])
    found = replace(data, folder=None, train=str(write(root, f"{name}-train", suffix, train)), valid=own)
    if valid is not None and own is None:
        found = replace(found, valid=str(write(root, f"{name}-valid", suffix, valid)))
    return found


def write(root: Path, name: str, suffix: str, lines: Callable[[], Iterator[str]]) -> Path:
    """Write lines to a file named by its content, and return its path."""
    data = "".join(f"{line}\n" for line in lines()).encode("utf-8")
    path = root / f"{name}-{sha256(data).hexdigest()[:12]}{suffix}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            new = path.with_name(f"{path.name}.tmp-new")
            new.write_bytes(data)
            force_to_disk(new)
            new.rename(path)
    except OSError as error:
        raise SightlineError(f"{path}: the built-in corpus cannot be written there: {error.strerror}") from None
    return path
