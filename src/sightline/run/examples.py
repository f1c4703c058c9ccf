"""Training and validation examples: corpora, encoded, split, and batched."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline.errors import SettingsError
from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.run.autosize import DatasetSize
from sightline.run.recipe import Recipe
from sightline.run.tokenization import Tokenizers
from sightline.text import tag_token
from sightline.text.batch_source import (
    BatchSource,
    LabeledBatchSource,
    MaskedBatchSource,
    PairBatchSource,
    RankSlice,
    SentencePairBatchSource,
    TaggedBatchSource,
    TextBatchSource,
)
from sightline.text.corpus import Corpus
from sightline.text.data import DataSettings, Part
from sightline.text.encoded_dataset import EncodedDataset, open_dataset
from sightline.text.encoding import Encoder, LabeledEncoder, PairEncoder, TaggedEncoder, TextEncoder
from sightline.text.labels import Labels
from sightline.text.line_groups import group_lines, hold_out_line_groups
from sightline.text.masking import Masker
from sightline.text.record import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TEXT_AND_LABEL,
    TOKENS_AND_LABELS,
    TURNS,
)
from sightline.text.split import hold_out

LABELED_FIELDS = {"sequence": TEXT_AND_LABEL, "pair": PAIR_AND_LABEL, "token": TOKENS_AND_LABELS}


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
        self, split: Split, config: BlockConfig, rank_slice: RankSlice, *, training: bool = True
    ) -> BatchSource:
        """Return the batches of a split, as the model takes them."""
        source, examples = self.tokenizers.source, np.flatnonzero(split.selected)
        if self.recipe.architecture == "transformer":
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


def find_labels(recipe: Recipe, data: DataSettings) -> Labels | None:
    """Return the labels of the training set, for classification."""
    return Labels.collect(open_corpus(recipe, data).records()) if recipe.task == "classification" else None


def build_encoder(recipe: Recipe, data: DataSettings, tokenizers: Tokenizers, labels: Labels | None) -> Encoder:
    """Return the encoder of this task, from records to ids."""
    source = tokenizers.source
    if recipe.architecture == "transformer":
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
