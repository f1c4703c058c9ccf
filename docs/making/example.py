"""The sentence that docs/walkthrough.md follows, and the rows and heads it shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sightline.errors import SightlineError
from sightline.pipelines import Translator
from sightline.runs.run_record import read_run_record
from sightline.tasks import load
from sightline.tracing import Trace

SENTENCE, LANGUAGE, TRANSLATION = "March 14, 2026", "de", "14. März 2026"
BEAM = 4

MONTH, DAY = 1, 3
"""Rows of the encoder: "March", and the first digit of the day."""
WRITTEN_MONTH = 3
"""The row of the decoder that predicts "März"."""
READ_MONTH = 4
"""The row whose input it is, one step later."""


class Head(TypedDict):
    """A head, as options of a figure."""

    attention: str
    layer: int
    head: int


ENCODER_HEAD: Head = {"attention": "encoder", "layer": 0, "head": 2}
"""A head of the encoder that attends to what precedes a digit."""
DECODER_HEAD: Head = {"attention": "decoder", "layer": 0, "head": 1}
"""A head of the decoder, with the causal mask."""
CROSS_HEAD: Head = {"attention": "cross", "layer": 1, "head": 0}
"""A head that attends to the word to be translated."""


@dataclass(frozen=True)
class Example:
    """A model and its traces of the sentence."""

    translator: Translator
    trace: Trace
    """The sentence with the translation of the chapter, all activations."""
    searched: Trace
    """The same, found by a beam search."""
    record: dict[str, Any]
    """The record of the training run."""

    @property
    def logits(self) -> np.ndarray:
        """The logits of every step."""
        return self.trace["logits"]


def load_example(run: Path) -> Example:
    """Trace the sentence with the demo model; refuse a model whose translation is not that of the chapter."""
    translator = load(run)
    if not isinstance(translator, Translator):
        raise SightlineError(f"{run} is not a translator: the figures are made from the demo model")
    example = trace_example(translator, read_run_record(run) or {})
    if example.searched.target.text != TRANSLATION:
        raise SightlineError(
            f"the model in {run} writes {example.searched.target.text!r}, but the chapter describes {TRANSLATION!r}"
        )
    return example


def trace_example(translator: Translator, record: dict[str, Any]) -> Example:
    """Return the example of any translator, whatever its own translation is."""
    trace = translator.trace(SENTENCE, to=LANGUAGE, target=TRANSLATION, activations=("*",), candidates=4)
    searched = translator.trace(SENTENCE, to=LANGUAGE, beam_size=BEAM, activations=("*.weights",), logit_lens=False)
    return Example(translator, trace, searched, record)
