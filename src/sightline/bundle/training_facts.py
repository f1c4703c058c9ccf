"""training.json: what training leaves behind for the users of a model, as data that programs can read.

The model card says the same to people. Every fact is optional: folders of other origin, or written before a fact was
recorded, lack it, and code that asks for one must do without.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sightline.bundle.calibration import Calibration
from sightline.bundle.input_statistics import InputStatistics
from sightline.bundle.language_statistics import LanguageStatistics
from sightline.config import Checks

MAX_TEXTS = 1_000
MAX_TEXT_LENGTH = 2_000


@dataclass(frozen=True)
class InputExample:
    """An input of the validation set, as a request gives it."""

    text: str
    second: str | None = None
    """The second text of a pair."""
    to: str | None = None
    """The target language, where the model has several."""
    reference: str = ""
    """What the validation set says is right."""


@dataclass(frozen=True)
class TrainingFacts:
    """What is known about the training of a model."""

    files: tuple[str, ...] = ()
    """Names of the training files, without their folders."""
    n_examples: int | None = None
    n_validation: int | None = None
    """Number of validation examples, which the model was not trained on."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores on the validation set, by name."""
    step: int | None = None
    """Step of the run at which the weights were saved."""
    calibration: Calibration | None = None
    """How often generated texts with a certain score were right on the validation set."""
    multi_sentence_share: float | None = None
    """Share of the training sources that have several sentences."""
    max_source_tokens: int | None = None
    """Length that all but one in a thousand training sources keep to, in tokens with their language tag."""
    examples: tuple[InputExample, ...] = ()
    """A few inputs of the validation set, for people to try."""
    inputs: InputStatistics | None = None
    """What inputs looked like, to notice one that is unlike them."""
    languages: LanguageStatistics | None = None
    """How to tell the languages of a multilingual translator apart."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        parts = [part for one in self.examples for part in (one.text, one.second, one.to, one.reference) if part]
        texts = (*self.files, *self.scores, *parts)
        checks.that(len(texts) <= MAX_TEXTS, f"{len(texts):,} texts are more than {MAX_TEXTS:,}")
        length = max(map(len, texts), default=0)
        checks.that(length <= MAX_TEXT_LENGTH, f"a text has {length:,} characters, more than {MAX_TEXT_LENGTH:,}")
        for name in ("n_examples", "n_validation", "step"):
            checks.between(0, 1 << 53, **{name: getattr(self, name) or 0})
        checks.between(0, 1, multi_sentence_share=self.multi_sentence_share or 0.0)
        checks.between(1, 1 << 31, max_source_tokens=1 if self.max_source_tokens is None else self.max_source_tokens)
        checks.done()
