"""What a model folder holds, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sightline import __version__
from sightline.decoding.settings import DecodingSettings
from sightline.model.config import BlockConfig
from sightline.model.registry import Model
from sightline.text import Tokenizer

MOST_SPARE_IDS = 1024
"""Embeddings are often made a little larger than the vocabulary, to a size that computes faster."""


@dataclass(frozen=True)
class Bundle:
    """A model with all that is needed to use it."""

    model: Model
    tokenizer: Tokenizer | None = None
    generation: DecodingSettings = field(default_factory=DecodingSettings)
    card: str = ""
    """The text of README.md; when empty, `save` writes one from what the model is."""
    version: str = __version__
    """The Sightline that wrote it."""


def disagreements(
    config: BlockConfig, tokenizer: Tokenizer | None, generation: DecodingSettings
) -> Iterator[tuple[str, str]]:
    """Yield what does not fit together, as file name and reason."""
    sizes = {"vocab_size": config.vocab_size, "target_vocab_size": getattr(config, "target_vocab_size", None)}
    for name, size in sizes.items():
        if tokenizer and size is not None and not 0 <= size - tokenizer.vocab_size <= MOST_SPARE_IDS:
            yield (
                "tokenizer.json",
                f"has ids up to {tokenizer.vocab_size - 1:,}, which does not fit the model's {name} of {size:,}",
            )
    written = sizes["target_vocab_size"] or config.vocab_size
    ids = [id_ for sequences in (generation.banned, generation.required) for sequence in sequences for id_ in sequence]
    if ids and max(ids) >= written:
        yield "generation.json", f"names the id {max(ids):,}, but the model's vocabulary has {written:,}"
