"""The sentence that docs/walkthrough.md follows, and the places where it stops to look."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sightline.errors import SightlineError
from sightline.pipelines import Translator, load
from sightline.run.journal import read_journal
from sightline.tracing import Trace

SENTENCE, LANGUAGE, TRANSLATION = "March 14, 2026", "de", "14. März 2026"
BEAM = 4

MONTH, DAY = 1, 3
"""Rows of the encoder: "March", and the first digit of the day."""
WRITTEN_MONTH = 3
"""The row of the decoder that writes "März"."""
READ_MONTH = 4
"""The row that reads it, a step later."""


class Head(TypedDict):
    """A head, as the figures are told of it."""

    attention: str
    layer: int
    head: int


LOOKING: Head = {"attention": "encoder", "layer": 0, "head": 2}
"""A head of the encoder that looks at what stands before a digit."""
LOOKING_BACK: Head = {"attention": "decoder", "layer": 0, "head": 1}
"""A head of the decoder, under the mask."""
LOOKING_ACROSS: Head = {"attention": "cross", "layer": 1, "head": 0}
"""A head that finds the word to be translated."""


@dataclass(frozen=True)
class Story:
    """A model and what it did with the sentence."""

    translator: Translator
    trace: Trace
    """The sentence with the translation that the chapter tells, every value of it."""
    searched: Trace
    """The same found by a beam."""
    journal: dict[str, Any]
    """What is known of the training."""

    @property
    def logits(self) -> np.ndarray:
        """The scores of all tokens at every step."""
        return self.trace["logits"]


def story_of(run: Path) -> Story:
    """Let the demo's model translate the sentence; one that writes something else cannot illustrate the chapter."""
    translator = load(run)
    if not isinstance(translator, Translator):
        raise SightlineError(f"{run} is no translator: the figures are made from the demo's model")
    story = told(translator, read_journal(run) or {})
    if story.searched.target.text != TRANSLATION:
        raise SightlineError(
            f"the model in {run} writes {story.searched.target.text!r}, but the chapter tells of {TRANSLATION!r}"
        )
    return story


def told(translator: Translator, journal: dict[str, Any]) -> Story:
    """Return the story of any translator, whatever it would write itself."""
    trace = translator.trace(SENTENCE, to=LANGUAGE, target=TRANSLATION, probes=("*",), candidates=4)
    searched = translator.trace(SENTENCE, to=LANGUAGE, beam=BEAM, probes=("*.weights",), readout=False)
    return Story(translator, trace, searched, journal)
