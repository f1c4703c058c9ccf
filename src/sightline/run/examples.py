"""What a run learns from and is validated on: corpora, encoded, split, and fed in batches."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from sightline.errors import SettingsError
from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.run.recipe import Recipe
from sightline.run.sizes import Amount
from sightline.run.vocabulary import Vocabulary
from sightline.text import tag_token
from sightline.text.corpus import Corpus
from sightline.text.data import DataSettings, Part
from sightline.text.encoding import Encoder, LabelledEncoder, PairEncoder, TaggedEncoder, TextEncoder
from sightline.text.feed import Feed, LabelledFeed, MaskedFeed, PairFeed, SentencePairFeed, Share, TaggedFeed, TextFeed
from sightline.text.labels import Labels
from sightline.text.masking import Masker
from sightline.text.passages import passages, set_passages_aside
from sightline.text.record import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TEXT_AND_LABEL,
    TOKENS_AND_LABELS,
    TURNS,
)
from sightline.text.split import set_aside
from sightline.text.store import Store, open_store

CLASSIFIED = {"text": TEXT_AND_LABEL, "pair": PAIR_AND_LABEL, "words": TOKENS_AND_LABELS}


def corpus_of(recipe: Recipe, data: DataSettings, part: Part = "train") -> Corpus:
    """Return a part of the data as the fields this task needs."""
    fields = {
        "translation": SOURCE_TARGET_LANGUAGE if data.languages else SOURCE_AND_TARGET,
        "chat": TURNS,
        "language-model": TEXT,
        "masked-language-model": TEXT,
        "classification": CLASSIFIED[data.classified],
    }[recipe.task]
    if not asks_for_next_sentence(recipe):
        return Corpus(data, fields, part)
    if (form := data.format_of(part)) != "text":
        raise SettingsError(
            f"which sentence follows which is learned from plain text, a line each, not from {form}: "
            "give such a text, or set model.heads=masked_words"
        )
    return Corpus(data, fields, part, unit="line")


def asks_for_next_sentence(recipe: Recipe) -> bool:
    """Tell whether a model shall also learn which sentence follows which."""
    heads = recipe.model_fields.get("heads", BertConfig.heads)
    return recipe.task == "masked-language-model" and isinstance(heads, list | tuple) and "next_sentence" in heads


@dataclass(frozen=True)
class Side:
    """One side of the split: some examples of a store."""

    store: Store
    chosen: Bool[ndarray, " n"]

    def amount(self, *, running_text: bool) -> Amount:
        """Count; running text is cut into blocks, so its examples have no length of their own."""
        lengths = self.store.lengths[self.chosen]
        longest = 0 if running_text else int(lengths.sum(axis=1).max(initial=0))
        return Amount(len(lengths), int(lengths.sum()), longest)


@dataclass(frozen=True)
class Examples:
    """Both sides, with what turns them into batches."""

    recipe: Recipe
    data: DataSettings
    vocabulary: Vocabulary
    labels: Labels | None
    train: Side
    valid: Side

    def feed(self, side: Side, config: BlockConfig, share: Share, *, learning: bool = True) -> Feed:
        """Return the batches of a side, as the model takes them."""
        source, examples = self.vocabulary.source, np.flatnonzero(side.chosen)
        if self.recipe.architecture == "transformer":
            return PairFeed(side.store, examples, share, source=source, target=self.vocabulary.written)
        if config.max_length is None:
            raise SettingsError("model.max_length must say how long the blocks of text are that this task reads")
        if self.recipe.task == "language-model":
            length = config.max_length
            return TextFeed(side.store, side.chosen, share, tokenizer=source, length=length, shifted=learning)
        if self.recipe.task == "masked-language-model":
            masker = Masker(source, self.recipe.masking, seed=share.seed)
            if asks_for_next_sentence(self.recipe):
                return SentencePairFeed(
                    side.store,
                    examples,
                    share,
                    documents=passages(np.asarray(side.store.labels))[examples],
                    tokenizer=source,
                    masker=masker,
                    length=config.max_length,
                )
            return MaskedFeed(side.store, side.chosen, share, tokenizer=source, masker=masker, length=config.max_length)
        kind: Callable[..., Feed] = TaggedFeed if self.data.classified == "words" else LabelledFeed
        return kind(side.store, examples, share, tokenizer=source, length=config.max_length)


def open_examples(
    root: Path, recipe: Recipe, data: DataSettings, vocabulary: Vocabulary, labels: Labels | None
) -> Examples:
    """Encode the corpora, or find them encoded, and split a validation set off where none was given."""
    encoder = encoder_for(recipe, data, vocabulary, labels)
    store = open_store(root, corpus_of(recipe, data), encoder)
    if data.valid is not None:
        other = open_store(root, corpus_of(recipe, data, "valid"), encoder)
        train, valid = Side(store, all_of(store)), Side(other, all_of(other))
    else:
        seed = recipe.sections["training"].get("seed", 1)
        chance = seed if isinstance(seed, int) else 1
        if asks_for_next_sentence(recipe):
            aside = set_passages_aside(np.asarray(store.labels), seed=chance)
        else:
            aside = set_aside(store.keys, seed=chance)
        train, valid = Side(store, ~aside), Side(store, aside)
    return Examples(recipe, data, vocabulary, labels, train, valid)


def all_of(store: Store) -> Bool[ndarray, " n"]:
    """Choose every example."""
    return np.ones(len(store), dtype=np.bool_)


def labels_of(recipe: Recipe, data: DataSettings) -> Labels | None:
    """Return the classes of a classification, from the training data."""
    return Labels.found_in(corpus_of(recipe, data).records()) if recipe.task == "classification" else None


def encoder_for(recipe: Recipe, data: DataSettings, vocabulary: Vocabulary, labels: Labels | None) -> Encoder:
    """Return what turns this task's records into ids."""
    source = vocabulary.source
    if recipe.architecture == "transformer":
        tags = {name: source.special_id(tag_token(name)) for name in data.languages}
        missing = [name for name, id_ in tags.items() if id_ is None]
        if missing:
            raise SettingsError(f"the tokenizer has no tag for the languages {', '.join(missing)}")
        return PairEncoder(source, vocabulary.target, tags={name: id_ for name, id_ in tags.items() if id_ is not None})
    if labels is None:
        return TextEncoder(source, with_ends=recipe.task == "language-model")
    if data.classified == "words":
        return TaggedEncoder(source, labels)
    return LabelledEncoder(source, labels, pairs=data.classified == "pair")
