"""The tokenizers of a run: learned from its data, kept beside the encoded corpus, found again by content.

Or another model's, where a run shall spell as that does.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sightline import bundle
from sightline.bundle.atomic import replace_folder
from sightline.bundle.folder import load_tokenizer
from sightline.bundle.words import read_words, words_text
from sightline.errors import ModelFileError, SettingsError, SightlineError
from sightline.run.recipe import Recipe
from sightline.run.sizes import vocabulary_size
from sightline.settings import to_mapping
from sightline.text import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token, train_tokenizer
from sightline.text.corpus import Corpus
from sightline.text.record import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TOKENS_AND_LABELS, TURNS
from sightline.text.store import content_hash
from sightline.text.wordlist import WordCounter

ENOUGH = 100_000_000
"""Bytes of text to learn a tokenizer from; of a larger corpus every so many-th record is read."""


@dataclass(frozen=True)
class Vocabulary:
    """How a run spells text."""

    source: Tokenizer
    target: Tokenizer | None = None
    """Where the target has a vocabulary of its own."""
    words: tuple[str, ...] = ()

    @property
    def written(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        return self.target or self.source


def open_vocabulary(root: Path, recipe: Recipe, corpus: Corpus) -> Vocabulary:
    """Return the tokenizers for a corpus, from a folder in `root` if they are there, else learned now and kept."""
    if recipe.tokenizer.folder is not None:
        return borrowed(recipe, Path(recipe.tokenizer.folder))
    folder = root / f"vocabulary-{fingerprint(recipe, corpus)}"
    found = read_vocabulary(folder)
    if found is None:
        found = learned(recipe, corpus)
        try:
            replace_folder(folder, lambda place: write_vocabulary(found, place))
        except OSError as error:
            raise SightlineError(f"{folder}: the tokenizer cannot be kept there: {error.strerror or error}") from None
    return found


def borrowed(recipe: Recipe, folder: Path) -> Vocabulary:
    """Return the tokenizers of a model, for another one that shall spell as it does."""
    typed = {name.removeprefix("tokenizer.") for name in recipe.typed if name.startswith("tokenizer.")}
    if fixed := sorted(typed - {"folder"}):
        raise SettingsError(f"tokenizer.folder brings its own {', '.join(fixed)}: leave them out")
    theirs = bundle.load(folder)
    if theirs.tokenizer is None:
        raise SettingsError(f"tokenizer.folder: {folder} has no tokenizer")
    needed = {"cls", "sep", "mask"} if recipe.architecture == "bert" else {"start", "end"}
    if missing := sorted(needed - set(theirs.tokenizer.roles)):
        raise SettingsError(
            f"tokenizer.folder: the tokenizer of {folder} has no token for {', '.join(missing)}, "
            f"which {recipe.task} needs: take that of another model, or let one be learned"
        )
    return Vocabulary(theirs.tokenizer, theirs.target_tokenizer, theirs.words)


def learned(recipe: Recipe, corpus: Corpus) -> Vocabulary:
    """Learn tokenizers, and count the words on the way."""
    settings, counter = recipe.tokenizer, WordCounter()
    n_bytes = corpus_bytes(corpus)
    stride = max(1, n_bytes // ENOUGH)
    tags = tuple(tag_token(language) for language in recipe.data.languages)
    special = MASKING_TOKENS if recipe.architecture == "bert" else (*SEQUENCE_TOKENS, *tags)

    def make(side: tuple[int, ...], size: int) -> Tokenizer:
        texts = counter.listening(corpus.texts(side, stride=stride))
        return train_tokenizer(
            settings.kind,
            texts,
            vocab_size=settings.vocab_size or vocabulary_size(size),
            special_tokens=special,
            split_digits=settings.split_digits,
        )

    if settings.separate and corpus.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE):
        return Vocabulary(make((0,), n_bytes // 2), make((1,), n_bytes // 2), counter.words())
    return Vocabulary(make(text_fields(corpus), n_bytes), words=counter.words())


def text_fields(corpus: Corpus) -> tuple[int, ...]:
    """Return which fields of a record are text to be spelled: not labels, not names of languages."""
    if corpus.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TURNS):
        return (0, 1)  # a dialogue is read as a source and its reply
    return tuple(range(max(1, len(corpus.fields) - 1))) if corpus.fields != TOKENS_AND_LABELS else (0,)


def corpus_bytes(corpus: Corpus) -> int:
    """Return about how much text there is; packed files are about three times as large as they look."""
    return sum(path.stat().st_size * (3 if path.suffix == ".gz" else 1) for path in corpus.files if path.exists())


def fingerprint(recipe: Recipe, corpus: Corpus) -> str:
    """Return the name under which tokenizers are found again."""
    reading = {name: value for name, value in to_mapping(corpus.settings).items() if "train" not in name}
    facts = {
        "format": 1,
        "files": [content_hash(path) for path in corpus.files],
        "read as": [corpus.format, *corpus.fields],
        "reading": {name: value for name, value in reading.items() if name not in ("folder", "valid", "valid_target")},
        "tokenizer": to_mapping(recipe.tokenizer),
        "architecture": recipe.architecture,
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """Return what is kept in a folder, or None if it is not there or not sound."""
    try:
        source = load_tokenizer(folder / "tokenizer.json")
        has_target = (folder / "target_tokenizer.json").exists()
        target = load_tokenizer(folder / "target_tokenizer.json") if has_target else None
        words = folder / "words.txt"
        return Vocabulary(source, target, read_words(words.read_bytes(), words) if words.exists() else ())
    except (ModelFileError, OSError):
        return None


def write_vocabulary(vocabulary: Vocabulary, place: Path) -> None:
    """Write the files of a vocabulary."""
    texts = {"tokenizer.json": vocabulary.source.to_json()}
    if vocabulary.words:
        texts["words.txt"] = words_text(vocabulary.words)
    if vocabulary.target is not None:
        texts["target_tokenizer.json"] = vocabulary.target.to_json()
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8", newline="\n")
