"""The examples of a run: the tokenizers trained on its corpus, and the encoded training and validation set."""

import json
from hashlib import sha256
from pathlib import Path

from sightline import bundle
from sightline.bundle.folder import format_words, load_tokenizer, read_words
from sightline.config import to_mapping
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.records import SOURCE_AND_TARGET, Labels
from sightline.data.datasets.encoded_dataset import content_hash, open_dataset, reading_settings
from sightline.data.datasets.examples import Examples, Split, Tokenizers
from sightline.data.tokenizers import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token, train_tokenizer
from sightline.data.tokenizers.training import WordCounter
from sightline.errors import ModelFileError, SettingsError, SightlineError
from sightline.model.registry import FAMILIES
from sightline.runs.autosize import choose_vocab_size
from sightline.runs.recipe import Recipe
from sightline.storage import replace_folder
from sightline.tasks.task import TaskSettings


def open_tokenizers(root: Path, recipe: Recipe, corpus: Corpus) -> Tokenizers:
    """Return the tokenizers for a corpus: from the cache in `root`, or trained now and cached."""
    if recipe.tokenizer.path is not None:
        return load_tokenizers_of(recipe, Path(recipe.tokenizer.path))
    folder = root / f"vocabulary-{tokenizer_fingerprint(recipe, corpus)}"
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
    needed = set(FAMILIES[recipe.family].roles)
    if missing := sorted(needed - set(theirs.tokenizer.roles)):
        raise SettingsError(
            f"tokenizer.path: the tokenizer of {folder} has no token for {', '.join(missing)}, "
            f"which {recipe.task} needs: use that of another model, or leave tokenizer.path out to train one"
        )
    return Tokenizers(theirs.tokenizer, theirs.target_tokenizer, theirs.words)


MAX_TRAINING_BYTES = 100_000_000
"""Bytes of text to train a tokenizer on; of a larger corpus only every n-th record is read."""


def train_tokenizers(recipe: Recipe, corpus: Corpus) -> Tokenizers:
    """Train tokenizers, and count words along the way."""
    settings, counter = recipe.tokenizer, WordCounter()
    n_bytes = corpus_bytes(corpus)
    stride = max(1, n_bytes // MAX_TRAINING_BYTES)
    tags = tuple(tag_token(language) for language in recipe.data.languages)
    special = MASKING_TOKENS if "mask" in FAMILIES[recipe.family].roles else (*SEQUENCE_TOKENS, *tags)

    def make(fields: tuple[int, ...], size: int) -> Tokenizer:
        texts = counter.count(corpus.texts(fields, stride=stride))
        return train_tokenizer(
            settings.kind,
            texts,
            vocab_size=settings.vocab_size or choose_vocab_size(size),
            special_tokens=special,
            split_digits=settings.split_digits,
            min_frequency=settings.min_frequency,
            add_prefix_space=settings.add_prefix_space,
        )

    if not settings.shared_vocab and corpus.fields[:2] == SOURCE_AND_TARGET:
        return Tokenizers(make((0,), n_bytes // 2), make((1,), n_bytes // 2), counter.words())
    return Tokenizers(make(corpus.text_fields, n_bytes), words=counter.words())


def corpus_bytes(corpus: Corpus) -> int:
    """Return the approximate size of the text; gzipped files count three times."""
    return sum(path.stat().st_size * (3 if path.suffix == ".gz" else 1) for path in corpus.files if path.exists())


def tokenizer_fingerprint(recipe: Recipe, corpus: Corpus) -> str:
    """Return the cache key of the tokenizers."""
    facts = {
        "format": 1,
        "files": [content_hash(path) for path in corpus.files],
        "read as": [corpus.format, *corpus.fields],
        "reading": reading_settings(corpus.settings),
        "tokenizer": to_mapping(recipe.tokenizer),
        "architecture": recipe.family,
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


def open_examples(
    root: Path, recipe: Recipe, settings: TaskSettings, tokenizers: Tokenizers, labels: Labels | None
) -> Examples:
    """Encode the corpora, or open them if they are encoded, and hold out a validation set if none is given."""
    task, data = recipe.task_row, settings.data
    encoder = task.build_encoder(settings, tokenizers, labels)
    dataset = open_dataset(root, task.open_corpus(settings), encoder)
    if data.valid is not None:
        other = open_dataset(root, task.open_corpus(settings, "valid"), encoder)
        return Examples(data, tokenizers, labels, Split.all_of(dataset), Split.all_of(other))
    if data.folds and data.fold is None:  # the final model: every example was held out from the model of its fold
        return Examples(data, tokenizers, labels, Split.all_of(dataset), Split.all_of(dataset))
    given = recipe.sections["training"].get("seed", 1)
    held_out = task.hold_out(settings, dataset, seed=given if isinstance(given, int) else 1)
    return Examples(data, tokenizers, labels, Split(dataset, ~held_out), Split(dataset, held_out))
