"""What a model folder holds, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sightline import __version__
from sightline.bundle.purpose import Purpose, misfits
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
    purpose: Purpose | None = None
    """What the model was made for, where that is known."""
    target_tokenizer: Tokenizer | None = None
    """What writes, where that is another one than what reads."""
    words: tuple[str, ...] = ()
    """Whole words of the training text, the most frequent first."""


@dataclass(frozen=True)
class Facts:
    """All of a bundle that can be compared before its weights are read."""

    config: BlockConfig
    tokenizer: Tokenizer | None
    target_tokenizer: Tokenizer | None
    generation: DecodingSettings
    purpose: Purpose | None


def facts_of(bundle: Bundle) -> Facts:
    """Return what there is to compare in a bundle."""
    return Facts(bundle.model.config, bundle.tokenizer, bundle.target_tokenizer, bundle.generation, bundle.purpose)


def disagreements(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what does not fit together, as file name and reason."""
    config, generation = facts.config, facts.generation
    target_size: int | None = getattr(config, "target_vocab_size", None)
    readers = [("tokenizer.json", facts.tokenizer, "vocab_size", config.vocab_size)]
    if target_size is not None and facts.target_tokenizer is None:
        readers.append(("tokenizer.json", facts.tokenizer, "target_vocab_size", target_size))
    elif target_size is not None:
        readers.append(("target_tokenizer.json", facts.target_tokenizer, "target_vocab_size", target_size))
    elif facts.target_tokenizer is not None:
        yield "target_tokenizer.json", "has no place here: the model has one vocabulary for sources and targets"
    for name, tokenizer, setting, size in readers:
        if tokenizer and not 0 <= size - tokenizer.vocab_size <= MOST_SPARE_IDS:
            ids = f"has ids up to {tokenizer.vocab_size - 1:,}"
            yield name, f"{ids}, which does not fit the model's {setting} of {size:,}"
    for reason in misfits(facts.purpose, config, facts.tokenizer) if facts.purpose else ():
        yield "config.json", reason
    named = [id_ for sequence in (*generation.banned, *generation.required) for id_ in sequence]
    if named and max(named) >= (written := target_size or config.vocab_size):
        yield "generation.json", f"names the id {max(named):,}, but the model's vocabulary has {written:,}"
