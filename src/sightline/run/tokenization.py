"""The tokenizers of a run: trained on its data and cached with the encoded corpus, or those of another model."""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sightline import bundle
from sightline.bundle.folder import load_tokenizer
from sightline.bundle.words import format_words, read_words
from sightline.errors import ModelFileError, SettingsError, SightlineError
from sightline.run.autosize import choose_vocab_size
from sightline.run.recipe import Recipe
from sightline.settings import to_mapping
from sightline.storage import replace_folder
from sightline.text import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token, train_tokenizer
from sightline.text.corpus import Corpus
from sightline.text.encoded_dataset import content_hash
from sightline.text.record import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TOKENS_AND_LABELS, TURNS
from sightline.text.wordlist import WordCounter

MAX_TRAINING_BYTES = 100_000_000
"""Bytes of text to train a tokenizer on; of a larger corpus only every n-th record is read."""


@dataclass(frozen=True)
class Tokenizers:
    """Source and target tokenizer of a run, and the words of its corpus."""

    source: Tokenizer
    target: Tokenizer | None = None
    """None if source and target share one."""
    words: tuple[str, ...] = ()

    @property
    def output(self) -> Tokenizer:
        """The tokenizer of the model's output."""
        return self.target or self.source


def open_tokenizers(root: Path, recipe: Recipe, corpus: Corpus) -> Tokenizers:
    """Return the tokenizers for a corpus: from the cache in `root`, or trained now and cached."""
    if recipe.tokenizer.path is not None:
        return load_tokenizers_of(recipe, Path(recipe.tokenizer.path))
    folder = root / f"vocabulary-{fingerprint(recipe, corpus)}"
    found = read_tokenizers(folder)
    if found is None:
        found = train_tokenizers(recipe, corpus)
        try:
            with replace_folder(folder) as new:
                write_tokenizers(found, new)
        except OSError as error:
            raise SightlineError(f"{folder}: the tokenizer cannot be saved: {error.strerror or error}") from None
    return found


def load_tokenizers_of(recipe: Recipe, folder: Path) -> Tokenizers:
    """Load the tokenizers of another model."""
    overridden = {name.removeprefix("tokenizer.") for name in recipe.overridden if name.startswith("tokenizer.")}
    if fixed := sorted(overridden - {"path"}):
        raise SettingsError(f"tokenizer.path already sets {', '.join(fixed)}: leave them out")
    theirs = bundle.load(folder)
    if theirs.tokenizer is None:
        raise SettingsError(f"tokenizer.path: {folder} has no tokenizer")
    needed = {"cls", "sep", "mask"} if recipe.architecture == "bert" else {"start", "end"}
    if missing := sorted(needed - set(theirs.tokenizer.roles)):
        raise SettingsError(
            f"tokenizer.path: the tokenizer of {folder} has no token for {', '.join(missing)}, "
            f"which {recipe.task} needs: use that of another model, or leave tokenizer.path out to train one"
        )
    return Tokenizers(theirs.tokenizer, theirs.target_tokenizer, theirs.words)


def train_tokenizers(recipe: Recipe, corpus: Corpus) -> Tokenizers:
    """Train tokenizers, and count words along the way."""
    settings, counter = recipe.tokenizer, WordCounter()
    n_bytes = corpus_bytes(corpus)
    stride = max(1, n_bytes // MAX_TRAINING_BYTES)
    tags = tuple(tag_token(language) for language in recipe.data.languages)
    special = MASKING_TOKENS if recipe.architecture == "bert" else (*SEQUENCE_TOKENS, *tags)

    def make(fields: tuple[int, ...], size: int) -> Tokenizer:
        texts = counter.count(corpus.texts(fields, stride=stride))
        return train_tokenizer(
            settings.kind,
            texts,
            vocab_size=settings.vocab_size or choose_vocab_size(size),
            special_tokens=special,
            split_digits=settings.split_digits,
        )

    if not settings.shared_vocab and corpus.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE):
        return Tokenizers(make((0,), n_bytes // 2), make((1,), n_bytes // 2), counter.words())
    return Tokenizers(make(text_fields(corpus), n_bytes), words=counter.words())


def text_fields(corpus: Corpus) -> tuple[int, ...]:
    """Return which fields of a record are text to tokenize: not labels, not language names."""
    if corpus.fields in (SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE, TURNS):
        return (0, 1)  # a dialogue is read as a source and its reply
    return tuple(range(max(1, len(corpus.fields) - 1))) if corpus.fields != TOKENS_AND_LABELS else (0,)


def corpus_bytes(corpus: Corpus) -> int:
    """Return the approximate size of the text; gzipped files count three times."""
    return sum(path.stat().st_size * (3 if path.suffix == ".gz" else 1) for path in corpus.files if path.exists())


def fingerprint(recipe: Recipe, corpus: Corpus) -> str:
    """Return the cache key of the tokenizers."""
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


def read_tokenizers(folder: Path) -> Tokenizers | None:
    """Read tokenizers from a folder; return None if they are missing or damaged."""
    try:
        source = load_tokenizer(folder / "tokenizer.json")
        has_target = (folder / "target_tokenizer.json").exists()
        target = load_tokenizer(folder / "target_tokenizer.json") if has_target else None
        words = folder / "words.txt"
        return Tokenizers(source, target, read_words(words.read_bytes(), words) if words.exists() else ())
    except (ModelFileError, OSError):
        return None


def write_tokenizers(tokenizers: Tokenizers, place: Path) -> None:
    """Write the files of the tokenizers."""
    texts = {"tokenizer.json": tokenizers.source.to_json()}
    if tokenizers.words:
        texts["words.txt"] = format_words(tokenizers.words)
    if tokenizers.target is not None:
        texts["target_tokenizer.json"] = tokenizers.target.to_json()
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8", newline="\n")
