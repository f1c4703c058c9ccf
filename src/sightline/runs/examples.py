"""The examples of a run: its corpora, the tokenizers trained on them, and the encoded, split and batched examples."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline import bundle
from sightline.bundle.folder import format_words, load_tokenizer, read_words
from sightline.config import to_mapping
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.records import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TEXT_AND_LABEL,
    TOKENS_AND_LABELS,
    TURNS,
    Labels,
)
from sightline.data.corpora.settings import DataSettings, Part
from sightline.data.datasets.batch_source import (
    BatchSource,
    LabeledBatchSource,
    MaskedBatchSource,
    PairBatchSource,
    RankSlice,
    SentencePairBatchSource,
    TaggedBatchSource,
    TextBatchSource,
)
from sightline.data.datasets.encoded_dataset import EncodedDataset, content_hash, open_dataset
from sightline.data.datasets.encoding import Encoder, LabeledEncoder, PairEncoder, TaggedEncoder, TextEncoder
from sightline.data.datasets.masking import Masker
from sightline.data.datasets.splits import group_lines, hold_out, hold_out_line_groups
from sightline.data.tokenizers import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token, train_tokenizer
from sightline.data.tokenizers.training import WordCounter
from sightline.errors import ModelFileError, SettingsError, SightlineError
from sightline.model.config import BertConfig, ModelConfig
from sightline.model.registry import FAMILIES
from sightline.runs.autosize import DatasetSize, choose_vocab_size
from sightline.runs.recipe import Recipe
from sightline.storage import replace_folder

LABELED_FIELDS = {"sequence": TEXT_AND_LABEL, "pair": PAIR_AND_LABEL, "token": TOKENS_AND_LABELS}
"""Fields of a record for each `data.label_level`."""


def open_corpus(recipe: Recipe, data: DataSettings, part: Part = "train") -> Corpus:
    """Open the training or validation corpus with the fields of the task."""
    fields = {
        "translation": SOURCE_TARGET_LANGUAGE if data.languages else SOURCE_AND_TARGET,
        "chat": TURNS,
        "language-model": TEXT,
        "masked-language-model": TEXT,
        "classification": LABELED_FIELDS[data.label_level],
    }[recipe.task]
    if not uses_nsp(recipe):
        return Corpus(data, fields, part)
    if (form := data.format_of(part)) != "text":
        raise SettingsError(
            f"next sentence prediction needs plain text, one sentence per line, not {form}: "
            "provide such a text, or set model.heads=mlm"
        )
    return Corpus(data, fields, part, unit="line")


def uses_nsp(recipe: Recipe) -> bool:
    """Tell whether the model is also trained on next sentence prediction."""
    heads = recipe.model_fields.get("heads", BertConfig.heads)
    return recipe.task == "masked-language-model" and isinstance(heads, list | tuple) and "nsp" in heads


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


def tokenizer_fingerprint(recipe: Recipe, corpus: Corpus) -> str:
    """Return the cache key of the tokenizers."""
    reading = {name: value for name, value in to_mapping(corpus.settings).items() if "train" not in name}
    facts = {
        "format": 1,
        "files": [content_hash(path) for path in corpus.files],
        "read as": [corpus.format, *corpus.fields],
        "reading": {name: value for name, value in reading.items() if name not in ("folder", "valid", "valid_target")},
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


def find_labels(recipe: Recipe, data: DataSettings) -> Labels | None:
    """Return the labels of the training set, for classification."""
    return Labels.collect(open_corpus(recipe, data).records()) if recipe.task == "classification" else None


def build_encoder(recipe: Recipe, data: DataSettings, tokenizers: Tokenizers, labels: Labels | None) -> Encoder:
    """Return the encoder of this task, from records to ids."""
    source = tokenizers.source
    if recipe.reads_pairs:
        tags = {name: source.special_id(tag_token(name)) for name in data.languages}
        missing = [name for name, id_ in tags.items() if id_ is None]
        if missing:
            raise SettingsError(f"the tokenizer has no language tag for {', '.join(missing)}")
        return PairEncoder(source, tokenizers.target, tags={name: id_ for name, id_ in tags.items() if id_ is not None})
    if labels is None:
        return TextEncoder(source, append_end=recipe.task == "language-model")
    if data.label_level == "token":
        return TaggedEncoder(source, labels)
    return LabeledEncoder(source, labels, pairs=data.label_level == "pair")


@dataclass(frozen=True)
class Split:
    """The training or the validation set: the selected examples of a dataset."""

    dataset: EncodedDataset
    selected: Bool[ndarray, " n"]

    def measure(self, *, running_text: bool) -> DatasetSize:
        """Count examples and tokens; running text is cut into blocks, so its examples have no length of their own."""
        lengths = self.dataset.lengths[self.selected]
        longest = 0 if running_text else int(lengths.sum(axis=1).max(initial=0))
        return DatasetSize(len(lengths), int(lengths.sum()), longest)


@dataclass(frozen=True)
class Examples:
    """Training and validation set, with all that is needed to batch them."""

    recipe: Recipe
    data: DataSettings
    tokenizers: Tokenizers
    labels: Labels | None
    train: Split
    valid: Split

    def batch_source(
        self, split: Split, config: ModelConfig, rank_slice: RankSlice, *, training: bool = True
    ) -> BatchSource:
        """Return the batches of a split, as the model takes them."""
        source, examples = self.tokenizers.source, np.flatnonzero(split.selected)
        if self.recipe.reads_pairs:
            return PairBatchSource(split.dataset, examples, rank_slice, source=source, target=self.tokenizers.output)
        if config.max_length is None:
            raise SettingsError("model.max_length must be set: this task cuts text into blocks of that length")
        if self.recipe.task == "language-model":
            length = config.max_length
            return TextBatchSource(
                split.dataset, split.selected, rank_slice, tokenizer=source, length=length, random_offset=training
            )
        if self.recipe.task == "masked-language-model":
            masker = Masker(source, self.recipe.masking, seed=rank_slice.seed)
            if uses_nsp(self.recipe):
                return SentencePairBatchSource(
                    split.dataset,
                    examples,
                    rank_slice,
                    documents=group_lines(np.asarray(split.dataset.labels))[examples],
                    tokenizer=source,
                    masker=masker,
                    length=config.max_length,
                )
            return MaskedBatchSource(
                split.dataset, split.selected, rank_slice, tokenizer=source, masker=masker, length=config.max_length
            )
        kind: Callable[..., BatchSource] = TaggedBatchSource if self.data.label_level == "token" else LabeledBatchSource
        return kind(split.dataset, examples, rank_slice, tokenizer=source, length=config.max_length)


def open_examples(
    root: Path, recipe: Recipe, data: DataSettings, tokenizers: Tokenizers, labels: Labels | None
) -> Examples:
    """Encode the corpora, or open them if they are encoded, and hold out a validation set if none is given."""
    encoder = build_encoder(recipe, data, tokenizers, labels)
    dataset = open_dataset(root, open_corpus(recipe, data), encoder)
    if data.valid is not None:
        other = open_dataset(root, open_corpus(recipe, data, "valid"), encoder)
        train, valid = Split(dataset, select_all(dataset)), Split(other, select_all(other))
    else:
        given = recipe.sections["training"].get("seed", 1)
        seed = given if isinstance(given, int) else 1
        if uses_nsp(recipe):
            held_out = hold_out_line_groups(np.asarray(dataset.labels), seed=seed)
        else:
            held_out = hold_out(dataset.keys, seed=seed)
        train, valid = Split(dataset, ~held_out), Split(dataset, held_out)
    return Examples(recipe, data, tokenizers, labels, train, valid)


def select_all(dataset: EncodedDataset) -> Bool[ndarray, " n"]:
    """Select every example."""
    return np.ones(len(dataset), dtype=np.bool_)
