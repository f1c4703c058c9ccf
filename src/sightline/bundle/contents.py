"""The contents of a model folder, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sightline import __version__
from sightline.bundle.task_config import TaskConfig, find_task_mismatches
from sightline.decoding.settings import DecodingSettings
from sightline.model.config import BlockConfig
from sightline.model.registry import Model
from sightline.text import Tokenizer

MAX_SPARE_IDS = 1024
"""Embeddings are often padded beyond the vocabulary, to a size that computes faster."""


@dataclass(frozen=True)
class Bundle:
    """A model with everything needed to use it."""

    model: Model
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
    """Whole words of the training text, most frequent first."""


@dataclass(frozen=True)
class Metadata:
    """Everything in a bundle but its weights, to be validated before they are read."""

    config: BlockConfig
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None
    generation: DecodingSettings
    task_config: TaskConfig | None


def get_metadata(bundle: Bundle) -> Metadata:
    """Return the metadata of a bundle."""
    return Metadata(
        bundle.model.config, bundle.tokenizer, bundle.target_tokenizer, bundle.generation, bundle.task_config
    )


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
    if metadata.task_config:
        for reason in find_task_mismatches(metadata.task_config, config, metadata.tokenizer):
            yield "config.json", reason
    listed = [id_ for sequence in (*generation.bad_words, *generation.forced_words) for id_ in sequence]
    if listed and max(listed) >= (n_ids := target_size or config.vocab_size):
        yield "generation.json", f"contains the id {max(listed):,}, but the model's vocabulary has {n_ids:,}"
