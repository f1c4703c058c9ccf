"""Built-in corpora: the generated phrasebook, and the dialogues of the package chatterbot-corpus.

A recipe names one as `data.train = "builtin:phrasebook"`. It is written to a file next to the encoded corpora, and read
like any other.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from sightline.errors import SettingsError, SightlineError
from sightline.settings import one_of
from sightline.storage import fsync
from sightline.text.data import DataSettings
from sightline.text.phrasebook import LANGUAGES, Phrase, Phrasebook, directions, make_phrasebook
from sightline.text.stateless_random import permutation

PREFIX = "builtin:"
N_TRAIN, N_UNSEEN, SEED = 8_000, 500, 0
DIRECTIONS_PER_PHRASE = 8
"""Of thirty: enough to generalize to the others."""

EXCLUDED = {"tech_support.yml"}
"""Half of the package's dialogues, all on one topic."""


def phrasebook() -> Phrasebook:
    """Return the training and validation phrases of the demo."""
    return make_phrasebook(n_train=N_TRAIN, n_unseen=N_UNSEEN, seed=SEED)


def phrase_lines(phrases: tuple[Phrase, ...], *, per_phrase: int) -> Iterator[str]:
    """Yield each phrase in some directions: source, target, target language."""
    ways = directions()
    for number, phrase in enumerate(phrases):
        texts = {language: phrase.text(language) for language in LANGUAGES}
        for way in permutation(len(ways), SEED, number)[:per_phrase].tolist():
            source, target = ways[way]
            yield f"{texts[source]}\t{texts[target]}\t{target}"


def training_phrases() -> Iterator[str]:
    """Yield the lines of the training set."""
    return phrase_lines(phrasebook().train, per_phrase=DIRECTIONS_PER_PHRASE)


def validation_phrases() -> Iterator[str]:
    """Yield the lines of the validation set, whose phrases are not in the training set in any direction."""
    return phrase_lines(phrasebook().unseen, per_phrase=1)


def chatterbot_dialogues() -> Iterator[str]:
    """Yield the English dialogues of the package chatterbot-corpus."""
    if find_spec("chatterbot_corpus") is None:
        raise SettingsError(
            "the recipe chat trains on the package chatterbot-corpus by default: "
            'pip install "sightline[chat]", or train on your own dialogues with data.train=FILE'
        )
    import yaml

    folder = files("chatterbot_corpus") / "data" / "english"
    entries = sorted((entry for entry in folder.iterdir() if entry.name not in EXCLUDED), key=lambda entry: entry.name)
    for entry in entries:
        for turns in yaml.safe_load(entry.read_text(encoding="utf-8"))["conversations"]:
            yield json.dumps({"turns": [str(turn) for turn in turns]}, ensure_ascii=False)


SOURCES: dict[str, tuple[str, Callable[[], Iterator[str]], Callable[[], Iterator[str]] | None]] = {
    "phrasebook": (".tsv", training_phrases, validation_phrases),
    "chatterbot": (".jsonl", chatterbot_dialogues, None),
}
"""Name → file extension, training set, and validation set (None: held out)."""


def resolve_builtin(root: Path, data: DataSettings) -> DataSettings:
    """Replace a built-in corpus by files in `root`, written if they do not exist."""
    if not data.train.startswith(PREFIX):
        return data
    name = data.train.removeprefix(PREFIX)
    if name not in SOURCES:
        raise SettingsError(f"data.train: there is no built-in corpus {name[:40]!r}, only {one_of(SOURCES, name)}")
    suffix, train, valid = SOURCES[name]
    own_valid = None if data.valid is None else str(data.files("valid")[0])
    found = replace(data, folder=None, train=str(write(root, f"{name}-train", suffix, train)), valid=own_valid)
    if valid is not None and own_valid is None:
        found = replace(found, valid=str(write(root, f"{name}-valid", suffix, valid)))
    return found


def write(root: Path, name: str, suffix: str, lines: Callable[[], Iterator[str]]) -> Path:
    """Write lines to a file named by its content hash, and return its path."""
    data = "".join(f"{line}\n" for line in lines()).encode("utf-8")
    path = root / f"{name}-{sha256(data).hexdigest()[:12]}{suffix}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            new = path.with_name(f"{path.name}.tmp-new")
            new.write_bytes(data)
            fsync(new)
            new.rename(path)
    except OSError as error:
        raise SightlineError(f"{path}: the built-in corpus cannot be written: {error.strerror}") from None
    return path
