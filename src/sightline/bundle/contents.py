"""The contents of a model folder, in memory: model, tokenizers, settings, and the task the model was trained for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline import __version__
from sightline.bundle.training_facts import TrainingFacts
from sightline.config import Checks
from sightline.data.corpora.records import MAX_LABELS
from sightline.data.tokenizers import Tokenizer, tag_token
from sightline.decoding.settings import DecodingSettings
from sightline.model.config import ModelConfig

if TYPE_CHECKING:
    from sightline.model.interfaces import Model

TASK_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
LANGUAGE_NAME = re.compile(r"[\w-]{1,40}")
MAX_LABEL_LENGTH = 200


@dataclass(frozen=True)
class TaskConfig:
    """The task of a model, and the meaning of its outputs."""

    task: str
    """Its name: what it means, `sightline.tasks` says."""
    languages: tuple[str, ...] = ()
    """Multilingual translation: the target languages; each source then begins with a target-language tag."""
    source_language: str | None = None
    target_language: str | None = None
    """Translation in one direction: its languages, if they are known."""
    labels: tuple[str, ...] = ()
    """Classification: the class names, by id."""
    per_word: bool = False
    """Classification: of each word (token classification) instead of the text."""
    pair: bool | None = None
    """Classification: of pairs of texts; None if that is not known."""
    context_turns: int = 3
    """Chat: number of previous turns a reply is conditioned on."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(TASK_NAME.fullmatch(self.task) is not None, f"{self.task[:60]!r} is not a valid name of a task")
        for name, values in (("languages", self.languages), ("labels", self.labels)):
            checks.that(len(set(values)) == len(values), f"{name} contains a name twice")
            checks.that(len(values) <= MAX_LABELS, f"{name} has {len(values):,} names, more than {MAX_LABELS:,}")
        direction = [name for name in (self.source_language, self.target_language) if name is not None]
        checks.that(len(direction) != 1, "source_language and target_language go together")
        checks.that(not (direction and self.languages), "a model of one direction has no list of languages")
        for language in (*self.languages, *direction):
            checks.that(
                LANGUAGE_NAME.fullmatch(language) is not None,
                f"{language[:60]!r} is not a valid language name (letters, digits, - and _)",
            )
        length = max(map(len, self.labels), default=0)
        checks.that(length <= MAX_LABEL_LENGTH, f"a label has {length:,} characters, more than {MAX_LABEL_LENGTH}")
        checks.between(1, 1_000, context_turns=self.context_turns)
        checks.done()


@dataclass(frozen=True)
class Bundle:
    """A model with everything needed to use it."""

    model: "Model"
    tokenizer: Tokenizer | None = None
    generation: DecodingSettings = field(default_factory=DecodingSettings)
    card: str = ""
    """The text of README.md; if empty, `save` generates one."""
    version: str = __version__
    """The Sightline version that wrote it."""
    task_config: TaskConfig | None = None
    """The task the model was trained for, if known."""
    target_tokenizer: Tokenizer | None = None
    """The tokenizer of targets, if it differs from that of sources."""
    words: tuple[str, ...] = ()
    """Whole words of the training text, most frequent first.

    For features that need words, such as nearest neighbors, where the model only knows subwords.
    """
    training: TrainingFacts = field(default_factory=TrainingFacts)
    """What is known about the training of the model."""


@dataclass(frozen=True)
class Metadata:
    """Everything in a bundle but its weights, to be validated before they are read."""

    config: ModelConfig
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None
    generation: DecodingSettings
    task_config: TaskConfig | None


def get_metadata(bundle: Bundle) -> Metadata:
    """Return the metadata of a bundle."""
    return Metadata(
        bundle.model.config, bundle.tokenizer, bundle.target_tokenizer, bundle.generation, bundle.task_config
    )


MAX_SPARE_IDS = 1024
"""Ids without a token: embeddings are often padded beyond the vocabulary, to a size that computes faster."""


def find_mismatches(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Yield parts that do not fit together, as file name and reason."""
    config, generation = metadata.config, metadata.generation
    target_size: int | None = getattr(config, "target_vocab_size", None)
    tokenizers = [("tokenizer.json", metadata.tokenizer, "vocab_size", config.vocab_size)]
    if target_size is not None and metadata.target_tokenizer is None:
        tokenizers.append(("tokenizer.json", metadata.tokenizer, "target_vocab_size", target_size))
    elif target_size is not None:
        tokenizers.append(("target_tokenizer.json", metadata.target_tokenizer, "target_vocab_size", target_size))
    elif metadata.target_tokenizer is not None:
        yield "target_tokenizer.json", "is not expected: the model has one vocabulary for sources and targets"
    for name, tokenizer, setting, size in tokenizers:
        if tokenizer and not 0 <= size - tokenizer.vocab_size <= MAX_SPARE_IDS:
            ids = f"has ids up to {tokenizer.vocab_size - 1:,}"
            yield name, f"{ids}, which does not fit the model's {setting} of {size:,}"
    languages = metadata.task_config.languages if metadata.task_config and metadata.tokenizer else ()
    for language in languages:
        if metadata.tokenizer and metadata.tokenizer.special_id(tag_token(language)) is None:
            token = tag_token(language)
            yield "config.json", f"lists the language {language!r}, but the tokenizer has no special token {token!r}"
    listed = [id_ for sequence in (*generation.bad_words, *generation.forced_words) for id_ in sequence]
    if listed and max(listed) >= (n_ids := target_size or config.vocab_size):
        yield "generation.json", f"contains the id {max(listed):,}, but the model's vocabulary has {n_ids:,}"
